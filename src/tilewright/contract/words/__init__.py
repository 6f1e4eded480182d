"""Are structured programs free of hangs and races? Agents as words of protocol steps, run against one another."""
