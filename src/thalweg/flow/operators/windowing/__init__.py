"""Windows, sessions and rolling windows as generated keyed functions."""
