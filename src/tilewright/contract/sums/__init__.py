"""Which sums did the tensor cores of a run compute?"""
