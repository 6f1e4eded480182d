"""How long would it take: models of tiles, loops, memory and whole kernels."""
