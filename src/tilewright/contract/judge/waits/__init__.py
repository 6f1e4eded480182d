"""What do the loops around waits look like in the text, and what does a failed wait decide?"""
