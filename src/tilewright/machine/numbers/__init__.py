"""What do arithmetic and conversions yield, bit for bit?"""
