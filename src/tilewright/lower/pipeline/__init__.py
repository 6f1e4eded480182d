"""How a decided product becomes a producer role and consumer warpgroups around a ring of slots."""
