"""Is a run of a PTX kernel free of races and hangs in every interleaving? The happens-before judge."""
