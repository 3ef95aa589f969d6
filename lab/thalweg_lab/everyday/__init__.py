"""Ten everyday functions: Thalweg by default and by settings, a plain loop, and what one would use instead."""
