"""How do float32 registers become what programs compute and store, and how do stored elements become float32?"""
