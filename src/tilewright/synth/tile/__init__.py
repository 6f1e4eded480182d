"""Which part of a result does a CTA compute at a time?"""
