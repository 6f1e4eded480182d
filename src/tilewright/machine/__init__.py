"""The PTX machine: runs a kernel's text exactly, on a CPU, and yields values and events.

It never reaches what chose or judged a kernel.
"""
