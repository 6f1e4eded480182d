"""Tiled views of strided buffers: which bytes, in which order, and which rewritings mean the same."""
