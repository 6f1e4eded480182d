"""Judges programs: is the asynchronous protocol free of hangs and races, for which counts, and if not, by which run?

Floor 6: imports base, targets, layout, ir, solve, frontends, legal and machine; never `synth` or `lower`, because a
checker that shares code with what it checks shares its mistakes.
"""
