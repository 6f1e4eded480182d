"""The command line: arguments in, verbs of `driver` called, results printed. One module per command, in `commands`."""
