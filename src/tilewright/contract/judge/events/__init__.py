"""What does each kind of event mean to the judge? One file for each kind."""
