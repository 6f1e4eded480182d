"""How do results leave, and what holds them on the way?"""
