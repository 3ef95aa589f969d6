"""C-Stream's figures 4 to 13 (Sahin & Gedik, section 5): plug-ins, topologies, elasticity, and threads an operator."""
