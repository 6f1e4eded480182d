"""Chooses: tiles, layouts, descriptors, stages, roles. Writes what it chose into the IR, where `lower` applies it.

Judges nothing (`contract` does) and emits nothing (`lower` does).
"""
