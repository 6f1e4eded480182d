"""Which rules are there, by family and code, and where may a user choose the strict or the tolerant side?"""
