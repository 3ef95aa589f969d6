"""Joins by column: a step's rows find their partners in one call of machine code; the state is kept by key."""
