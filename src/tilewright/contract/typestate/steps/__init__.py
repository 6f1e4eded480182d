"""What does each kind of `ac` operation do to a unit's state? One file for each kind."""
