"""Is a kernel that walks tiles proven by what it does between two passes of one barrier?"""
