"""PTX in an editor: the language server and the command that starts it."""
