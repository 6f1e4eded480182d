"""What every command shares: files, options, progress, colours, findings shown."""
