"""Operators with driver loops of their own, stepped row by row (C-Stream)."""
