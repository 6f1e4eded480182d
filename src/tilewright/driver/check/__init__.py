"""Does a text keep the asynchronous protocol? `check`, its budgets, and what its findings name."""
