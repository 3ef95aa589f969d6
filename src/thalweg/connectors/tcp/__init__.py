"""Lines over TCP, in and out."""
