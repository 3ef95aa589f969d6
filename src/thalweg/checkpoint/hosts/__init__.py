"""What hosts keep beside state and records: the lease, plans of batches, Spark's log, moves from host to host."""
