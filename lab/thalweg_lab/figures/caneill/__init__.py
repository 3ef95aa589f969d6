"""Caneill, figures 7 to 14."""
