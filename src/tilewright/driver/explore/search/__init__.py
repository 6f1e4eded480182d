"""Which other launch goes another way? Evaluated over many at once, asked of a solver; sums that stay in range."""
