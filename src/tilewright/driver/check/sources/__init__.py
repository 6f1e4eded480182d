"""Which texts are checked, where do they stand in files and binaries, and where does a finding stand in them?"""
