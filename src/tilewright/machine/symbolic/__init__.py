"""How does a run depend on the numbers of its launch? Registers as expressions over them, beside their values."""
