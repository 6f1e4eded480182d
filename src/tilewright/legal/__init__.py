"""What the hardware accepts: tensor maps and matrix descriptors judged against a target's facts, with every rule broken."""
