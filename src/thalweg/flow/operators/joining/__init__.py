"""Joins and lookups as records, generated functions and driver loops."""
