"""Questions to the hardware and its driver, each a command; what they find is `measured` in the target tables."""
