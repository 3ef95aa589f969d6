"""Tables of keyed state, one a bucket: compiled and interpreted, with one form on disk."""
