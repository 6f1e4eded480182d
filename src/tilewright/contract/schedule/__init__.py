"""Does a schedule keep what its task graph demands?"""
