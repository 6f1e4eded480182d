"""How many bytes do copies bring whose tensor maps nobody has given?"""
