"""A flow as a checked plan: stages, fused chains, time domains, feedback, the order key."""
