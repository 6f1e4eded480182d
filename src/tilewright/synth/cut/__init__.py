"""Into which sequences of programs may one be cut, each a kernel of its own, and how long would each take?

A program of products and folds need not be one kernel. Any value of it may be handed over: a first program computes
the value and stores it to a workspace, a second one loads it there. `handover` finds the values and writes the two
programs. `split` has a first program fold an axis in parts, and others combine the parts' states. `certificate` runs
all in exact arithmetic; `time` says how long a decided program takes. Which sequence is taken is decided where programs
are given their walks (`driver.compile.sequence`).

Checked by: tests/synth/cut.
"""
