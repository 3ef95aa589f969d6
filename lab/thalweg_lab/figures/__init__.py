"""The papers' figures, one module each: the claim, the paper's numbers, ours, and checks of the claim's shape."""
