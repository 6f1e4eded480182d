"""How does each operand reach the tensor core?"""
