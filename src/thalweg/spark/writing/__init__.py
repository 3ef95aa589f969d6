"""How a batch's rows leave a query: files, tables, functions and targets."""
