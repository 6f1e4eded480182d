"""How does a tile program become an assembled, proven kernel?"""
