"""Which launch is a kernel checked for? As a file gives it, or as its text admits it."""
