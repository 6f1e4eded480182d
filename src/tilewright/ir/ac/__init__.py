"""The asynchronous contract: operations, types and text of the `ac` dialect."""
