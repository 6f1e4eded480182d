"""MLIR text as a tree: enough of its syntax to follow TTGIR and nvgpu programs, whose dialects print in forms of their
own."""
