"""Who touched which bytes last? Histories of memory, as coarse as the accesses allow."""
