"""What threads share without locks: atomic words, rings, the reorder buffer, the hybrid queue, parking."""
