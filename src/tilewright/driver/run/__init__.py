"""How is a kernel called, on a GPU or on the CPU machine?"""
