"""How many wavefronts do accesses of shared memory take, and where should a tile stand?"""
