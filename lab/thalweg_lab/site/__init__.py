"""What the documentation's site has besides its pages: the command line's help, and one correction of docstrings."""
