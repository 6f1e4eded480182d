"""What need not be run again, or one by one, where a run is made for its events alone?"""
