"""What can a kernel do that no launch has shown? Each kind of gap in what launches cover, and all of them together."""
