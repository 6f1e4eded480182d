"""How ac ops become PTX text: values' places, rings, copies, scalar code, passes over the text."""
