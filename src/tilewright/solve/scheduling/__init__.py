"""In which order, and at which interval, do operations run: loops, marked graphs, straight-line blocks?"""
