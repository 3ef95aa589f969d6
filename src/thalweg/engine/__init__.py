"""One engine's contract and its serial form: ingress, units, interpreted operators, coroutines, explain."""
