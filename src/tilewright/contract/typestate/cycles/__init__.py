"""Can roles wait for one another in a circle, for any trip count? Rings, distances and graphs of events."""
