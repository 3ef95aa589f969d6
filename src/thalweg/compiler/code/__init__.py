"""The text of compiled functions: names, columns, modules, and why a function is refused."""
