"""Integers that layouts rest on: expressions, facts, conditions, boxes, matrices of bits."""
