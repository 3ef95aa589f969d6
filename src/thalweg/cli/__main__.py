"""``python -m thalweg.cli`` is the command ``thalweg``."""

from thalweg.cli import main

main()
