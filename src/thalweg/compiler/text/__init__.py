"""Texts in compiled functions: which operations compile, and what the kernel does with texts."""
