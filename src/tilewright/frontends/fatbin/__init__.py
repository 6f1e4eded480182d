"""Fat binaries: the container in which nvcc puts PTX and cubins, and the two compressions that it uses."""
