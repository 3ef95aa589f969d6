"""Prasaad, figures 8 to 14."""
