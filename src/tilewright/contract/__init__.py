"""Judges programs: is the asynchronous protocol free of hangs and races, for which counts, and if not, by which run?

Floor 6: imports only from the floors below it; never `synth` or `lower`, because a checker that shares code with what
it checks shares its mistakes.
"""
