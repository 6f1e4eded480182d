"""Is a tensor map legal, and if not, which rules does it break?"""
