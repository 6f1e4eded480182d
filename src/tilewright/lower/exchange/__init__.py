"""How the plan of an exchange between register layouts becomes PTX."""
