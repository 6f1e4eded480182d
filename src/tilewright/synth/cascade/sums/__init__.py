"""Where does a walk sum its products, in tiles of which shape, and what do sums need besides?"""
