"""Rounds (Haren): all workers meet, a policy assigns operators to them, and they go on."""
