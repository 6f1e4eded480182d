"""Which edit fixes what was found? Candidates by kind of mistake, each checked again."""
