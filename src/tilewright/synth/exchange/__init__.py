"""What is the cheapest way to bring a tile from one layout to another?"""
