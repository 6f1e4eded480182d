"""How much time and work may a check take?"""
