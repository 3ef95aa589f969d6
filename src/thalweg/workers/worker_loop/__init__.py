"""The loop in which a worker lives, compiled: what runs next, how chunks move, where rounds meet."""
