"""Which bytes and elements does an operation of a role touch, and may two of them be the same?"""
