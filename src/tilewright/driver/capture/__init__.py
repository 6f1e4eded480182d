"""Launches of real programs, recorded on a GPU and written as launch files."""
