"""Which CTA and which role computes which tile or slice, as `ac` and as PTX: rasters, turns, streams, splits, groups,
teams."""
