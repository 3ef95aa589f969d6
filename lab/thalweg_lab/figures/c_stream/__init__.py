"""C-Stream, figures 4 to 13."""
