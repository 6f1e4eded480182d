"""What is the smallest kernel that still shows a finding?"""
