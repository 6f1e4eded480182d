"""What orders lanes, CTAs and grids with one another, apart from barriers?"""
