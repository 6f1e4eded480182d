"""What does each command do? Its arguments, its run, and how its result is shown."""
