"""What does the text say of its branches and loops, before a launch is made?"""
