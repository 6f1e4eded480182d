"""What do bulk and tensor copies move, and when?"""
