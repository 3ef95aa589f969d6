"""What compiled functions call: memory by address, checked integers, tables of state, calls by address."""
