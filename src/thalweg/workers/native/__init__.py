"""The native data plane: operators that run inside the worker loop and never touch Python."""
