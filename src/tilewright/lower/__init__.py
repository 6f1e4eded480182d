"""Applies the decisions written in the IR: tile to ac, ac to PTX text, upstream dialects and the launch plan.

Decides nothing and calls no solver.
"""
