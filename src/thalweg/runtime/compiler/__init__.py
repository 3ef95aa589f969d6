"""Compiles users' per-tuple functions into loops over chunks, or says why it cannot."""
