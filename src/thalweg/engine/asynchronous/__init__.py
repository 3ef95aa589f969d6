"""Operators whose functions are awaited: an event loop beside the engine's threads, and the calls open in it."""
