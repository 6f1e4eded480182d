"""Is a tensor map of unknown sizes legal, and under which condition?"""
