"""How fragments in registers are computed, folded, multiplied and stored, as PTX."""
