"""Schneider & Wu, figures 8 to 10."""
