"""Text or Python in, IR or PTX values out."""
