"""Findings and results as something to read: plain text, JSON, SARIF 2.1.0, a page of HTML with figures.

Floor 8: imports `base` only. Every function takes values and returns text or plain JSON values; nothing here prints,
opens a file or decides what is wrong.
"""
