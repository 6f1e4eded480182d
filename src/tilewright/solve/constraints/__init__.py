"""Which integers satisfy constraints that are written as Python arithmetic, at least cost?"""
