"""Which legal maps and copies near an illegal map copy the same boxes?"""
