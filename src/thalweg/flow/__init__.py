"""What the user writes: Flow, streams, keyed streams, joins, windows, records."""
