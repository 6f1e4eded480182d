"""What do wgmma and tcgen05 compute, where do their matrices lie, and when do they complete?"""
