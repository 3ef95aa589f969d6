"""What the site of the documentation has besides its pages: the command line's help, and a correction of docstrings."""
