"""The version of the library, which checkpoints and caches carry."""

__version__ = "0.1.0"
