"""A stream by key: its verbs, whose operators hold a state for each key."""
