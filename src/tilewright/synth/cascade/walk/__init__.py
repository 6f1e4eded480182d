"""Which tiles does a walk take in which order, what do they take, and what is issued when?"""
