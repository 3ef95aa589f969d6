"""Driver loops that start anew at each row: those without state, and those by key (docs/coroutines.md)."""
