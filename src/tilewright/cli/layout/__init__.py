"""`tilewright layout`: what a layout is, and what operations make of it."""
