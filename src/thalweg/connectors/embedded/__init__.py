"""Logs and targets in an embedded run."""
