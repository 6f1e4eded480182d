"""Piecewise-affine layouts: any size, with flips, slices, tails and joints."""
