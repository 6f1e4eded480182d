"""Does structured MLIR keep the protocol: by itself, or beside PTX that is not decided?"""
