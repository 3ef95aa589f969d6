"""NEXMark: its generator, and what runs its queries here and in other systems."""
