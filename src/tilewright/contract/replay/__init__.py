"""Does the text of a compiled kernel do what was proven of its program?"""
