"""``python -m thalweg`` is the command ``thalweg``."""

from thalweg.cli import main

main()
