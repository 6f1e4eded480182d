"""In which order, role and stage does each task of a loop run?"""
