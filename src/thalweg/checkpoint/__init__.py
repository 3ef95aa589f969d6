"""State on disk: state files, commit records and the manifest of a checkpoint."""
