"""Compiled operators with a state for each key: the kernel's text, its runs, and calls that Python repeats."""
