"""What need not be run, or reported one by one, where a run is made for its events alone?"""
