"""How do bytes go between global memory, slots and registers: rings, copies, loads, stores, prefetches?"""
