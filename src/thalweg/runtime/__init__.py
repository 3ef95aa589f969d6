"""Act: chunks, kernels, state tables and the engine that runs a plan in this process."""
