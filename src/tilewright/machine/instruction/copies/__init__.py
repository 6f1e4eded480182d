"""What do the engines do that copy and store asynchronously, and what do their operands name?"""
