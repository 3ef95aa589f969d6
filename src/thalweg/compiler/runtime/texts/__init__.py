"""Texts in compiled code: an address of UTF-8 bytes and their number."""
