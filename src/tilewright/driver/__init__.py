"""The public verbs as plain functions: compile, run, prove. Puts the floors below together; computes nothing itself."""
