"""Layouts linear over F2, with names for the levels of a machine."""
