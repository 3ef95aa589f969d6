"""Columns: chunks of rows, their keys, their place in the order, and the units that keyed state is kept by."""
