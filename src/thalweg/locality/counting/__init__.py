"""What is counted of keys and of pairs of keys, in bounded memory (Caneill et al., 3.2)."""
