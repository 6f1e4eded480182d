"""The `tile` dialect: what a kernel author writes, and facts read off it."""
