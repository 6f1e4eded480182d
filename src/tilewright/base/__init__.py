"""Values that every floor shares: spans, diagnostics, verdicts, launch plans, errors.

Floor 1: imports the standard library only.
"""
