"""The tile language: Python functions in, `tile` programs out.

`language` is what authors write and imports no xDSL; `trace` turns a kernel into IR; `reference` evaluates the IR.
"""
