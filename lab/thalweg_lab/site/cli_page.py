"""The page on the command line, made of the command's own help.

::

    python -m thalweg_lab.site.cli_page docs/reference/cli.md

The page is kept in the repository, so that it can be read there, and a test says when it is not what this gives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

#: So wide is a page's block of code.
_COLUMNS: Final = 100
_HEAD: Final = """\
# Command line

What `thalweg --help` and each command's `--help` say. It is made anew by
`python -m thalweg_lab.site.cli_page docs/reference/cli.md`.
What a command answers when it fails: [errors](../errors.md#on-the-command-line).
"""


def page() -> str:
    """The whole page."""
    import typer

    from thalweg.cli import app

    sections = (_section(words) for words in _commands((), typer.main.get_command(app)))
    return "\n".join([_HEAD, *sections])


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[str, ...]]:
    """The words of a command and of all below it, in the order of the help."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands((*words, name), below)


def _section(words: tuple[str, ...]) -> str:
    name = " ".join(("thalweg", *words))
    return f"{'#' * min(2 + len(words), 4)} `{name}`\n\n```text\n{_help(words)}\n```\n"


def _help(words: tuple[str, ...]) -> str:
    from typer.testing import CliRunner

    from thalweg.cli import app

    runner = CliRunner(env={"COLUMNS": str(_COLUMNS), "TERMINAL_WIDTH": str(_COLUMNS)})
    done = runner.invoke(app, [*words, "--help"], prog_name="thalweg", max_content_width=_COLUMNS)
    if done.exit_code != 0:
        raise RuntimeError(f"thalweg {' '.join(words)} --help: {done.output}")
    return "\n".join(line.rstrip() for line in done.output.strip().splitlines())


def main() -> None:
    """Writes the page."""
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
