"""Interpreted operators: the user's Python functions, with the contract of the compiled ones."""
