"""A thousand operators under hundreds of threads, in machine code."""
