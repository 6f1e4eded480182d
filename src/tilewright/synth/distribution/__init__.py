"""Which CTAs share tiles, operands and sums, and in which order are tiles taken?"""
