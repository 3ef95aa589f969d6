"""Haren, figures 4 to 9."""
