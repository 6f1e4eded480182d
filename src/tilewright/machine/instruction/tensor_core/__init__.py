"""What do matrix instructions and those of tensor memory do?"""
