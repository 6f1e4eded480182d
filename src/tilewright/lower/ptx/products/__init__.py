"""How do products of the tensor core become PTX: wgmma, tcgen05, tensor memory, factors of blocks?"""
