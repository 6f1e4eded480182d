"""What does a kernel look like: its banks, layouts, schedules, registers, roofline, profile?"""
