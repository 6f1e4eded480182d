"""What the hardware accepts: tensor maps and matrix descriptors judged by a target's facts, every rule broken named.

Floor 4: imports `base` and `targets`.
"""
