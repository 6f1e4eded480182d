"""Which legal forms has a view, by rewriting? All rewrites at once in an e-graph, or one after another."""
