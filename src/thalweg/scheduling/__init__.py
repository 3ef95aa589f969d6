"""Who runs next: policies as pure objects, the same for the node runtime, the simulator and tests."""
