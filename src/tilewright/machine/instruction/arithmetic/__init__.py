"""What do instructions compute in registers alone?"""
