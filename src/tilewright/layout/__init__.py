"""The layout algebra: layouts as terms over integers, with no GPU words. Floor 2: imports `base` only."""
