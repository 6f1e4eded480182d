"""What does a solver read for the values of a run?"""
