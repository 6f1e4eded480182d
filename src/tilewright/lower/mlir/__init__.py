"""How an `ac` kernel is written in upstream MLIR dialects."""
