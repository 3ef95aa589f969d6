"""One int64 array that all threads share: what stands where, handles of chunks, and how much room there is."""
