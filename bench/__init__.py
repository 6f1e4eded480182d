"""Measurements, each a command: `python -m bench NAME`. Results with versions go to bench/results/."""
