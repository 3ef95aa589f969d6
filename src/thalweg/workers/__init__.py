"""Many threads: the units of an engine on shared memory, with the output of a serial run."""
