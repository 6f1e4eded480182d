"""How does a warp run one instruction after another, and who moves next?"""
