"""State on disk: segments, commit records and the manifest of a checkpoint."""
