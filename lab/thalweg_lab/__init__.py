"""The papers' experiments on this machine: ``thalweg bench``."""
