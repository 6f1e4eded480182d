"""What happens when roles run at concrete trip counts, with real counters, parities and bytes?"""
