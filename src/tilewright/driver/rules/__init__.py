"""Which rules may a finding cite, what do they say, and which side of a contested point is taken?"""
