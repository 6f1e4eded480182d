"""Is an `ac` program free of hangs and races, for every trip count? A walk over its roles with linear tokens."""
