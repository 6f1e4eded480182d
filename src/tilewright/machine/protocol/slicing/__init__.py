"""Which instructions of a kernel decide its protocol, and what do they read, write and lead to?"""
