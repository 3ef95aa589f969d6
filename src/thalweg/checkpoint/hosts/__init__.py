"""What a host needs to own a checkpoint and go on with it: the lock, the manifest, what is planned, what Spark has logged."""
