"""What holds of a kernel whose launch is not given? Launches are solved for until they cover it."""
