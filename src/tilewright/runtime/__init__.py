"""Runs compiled programs: assembling PTX, bundles on disk, the driver, launches, arrays from other libraries.

Floor 7: imports `base` and `targets`, NumPy, ml_dtypes, and (lazily, at the first call that needs a GPU) cuda-bindings.
A deployed kernel needs nothing else.
"""
