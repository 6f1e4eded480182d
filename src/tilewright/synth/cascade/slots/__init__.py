"""How do a walk's operands come to slots of shared memory: which arrays, by whom, in which form?"""
