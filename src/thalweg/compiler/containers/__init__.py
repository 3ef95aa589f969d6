"""Lists, deques, dicts and sets in compiled functions: how they are made, read, changed and looped over."""
