"""What do the descriptors of matrix instructions say, and do they fit the layout?"""
