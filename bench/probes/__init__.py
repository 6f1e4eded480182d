"""What does the machine really do? Stand-alone programs that ask a driver or a device, and compare with the rules."""
