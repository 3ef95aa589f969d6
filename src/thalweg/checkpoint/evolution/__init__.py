"""State that evolves: what a changed flow does to a checkpoint, decided and checked before anything is written."""
