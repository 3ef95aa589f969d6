"""One int64 array that all threads share: its layout, handles of chunks, and free room."""
