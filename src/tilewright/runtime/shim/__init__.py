"""The library that records kernel launches of any program, in C, and how it is compiled."""
