"""What may depend on data that a protocol run cannot know?"""
