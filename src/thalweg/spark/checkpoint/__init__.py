"""The checkpoint of a query: its folder, who may write there, what Spark itself has logged, what its state means."""
