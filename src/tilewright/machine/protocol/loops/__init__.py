"""What does one run show of a loop: does it end, repeat itself, wait for memory, count what?"""
