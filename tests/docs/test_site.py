"""The documentation as a site: links lead somewhere, pages have a place, what is made of the code is up to date."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from thalweg_lab.site.cli_page import page as cli_page

import thalweg

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
#: Pages outside of docs/ that link into it.
_OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "lab/peers/README.md")
#: What has no docstring of its own to show.
_PLAIN = {"__version__"}


def pages() -> list[Path]:
    return [*(ROOT / name for name in _OUTSIDE), *sorted(DOCS.rglob("*.md"))]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def on_the_site(heading: str) -> str:
    """The anchor that Python-Markdown gives a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def in_the_repository(heading: str) -> str:
    """The anchor that GitHub gives it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors that lead to a heading both on the site and in the repository."""
    texts = [re.sub(r"\]\([^)]*\)", "", one).strip() for one in _HEADING.findall(prose(page))]
    return frozenset(
        on_the_site(one) for one in texts if on_the_site(one) == in_the_repository(one)
    )


def faults(page: Path) -> list[str]:
    """Links of a page that lead nowhere, or out of the site."""
    found = []
    for target in _LINK.findall(_CODE.sub("", prose(page))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        where = f"{page.relative_to(ROOT)}: {target}"
        if not to.exists():
            found.append(f"{where} is not there")
        elif page.is_relative_to(DOCS) and not to.is_relative_to(DOCS):
            found.append(f"{where} is not on the site")
        elif anchor and anchor not in anchors(to):
            found.append(f"{where} has no such heading")
    return found


def test_links_and_anchors() -> None:
    """Every relative link leads to a file, and to a heading of it; pages of the site link pages of the site."""
    assert [one for page in pages() for one in faults(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """The check above sees a missing file and a missing heading, and leaves code alone."""
    page = DOCS / "order.md"
    assert {"late-rows", "timers-and-windows"} <= anchors(page)
    assert "nowhere" not in anchors(page)
    made = tmp_path / "page.md"
    made.write_text("# One\n\n`[a](no.md)`\n\n```py\n[b](no.md)\n```\n\n[c](#one)\n")
    text = _CODE.sub("", prose(made))
    assert _LINK.findall(text) == ["#one"]
    assert anchors(made) == {"one"}


def in_navigation() -> tuple[list[str], list[str]]:
    """The pages of mkdocs.yml's navigation, and those that stand there as comments."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    lines = [line.strip() for line in text.splitlines()]
    found: tuple[list[str], list[str]] = ([], [])
    for line in lines:
        page = re.search(r"(\S+\.md)$", line)
        if page:
            found[line.startswith("#")].append(page[1])
    return found


def test_every_page_has_its_place() -> None:
    """Each page stands in the navigation once, and all that stand there exist; one commented out does not yet."""
    shown, waiting = in_navigation()
    assert len(shown) == len(set(shown))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    written = sorted(there & set(waiting))
    assert not written, f"mkdocs.yml: these pages exist now, so uncomment their lines: {written}"
    assert sorted(set(shown) - there) == []
    assert sorted(there - set(shown)) == []


def test_the_page_on_the_command_line() -> None:
    """It is what the commands' help says now; `python -m thalweg_lab.site.cli_page docs/reference/cli.md` writes it."""
    assert (DOCS / "reference" / "cli.md").read_text(encoding="utf-8") == cli_page()


def test_every_public_name_is_in_the_reference() -> None:
    """Each name of `thalweg` has its docstring on a page of the reference, and each of these is a name that exists."""
    text = "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    named = set(re.findall(r"^::: thalweg\.(\w+)$", text, re.MULTILINE))
    assert sorted(set(thalweg.__all__) - named - _PLAIN) == []
    assert sorted(named - set(thalweg.__all__)) == ["simulate"]  # its page names the package


def test_figures_of_when_not_to_use_it() -> None:
    """Its rows stand in the table that the benchmark writes: who measures anew, copies them anew."""
    rows = re.findall(r"^\| \w.* \|$", (DOCS / "when-not.md").read_text("utf-8"), re.MULTILINE)
    measured = (DOCS / "performance.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 7
    assert [row for row in rows if row not in measured] == []


@pytest.mark.merge
def test_the_site(tmp_path: Path) -> None:
    """It builds with --strict, and its pages load nothing from the network."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: pip install -e '.[docs]', or make docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        capture_output=True, text=True, cwd=ROOT, timeout=300,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = sorted((tmp_path / "site").rglob("*.html"))
    assert len(made) > 50
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*href="(?:https?:)?//'
    )
    assert [page.name for page in made if loads.search(page.read_text(encoding="utf-8"))] == []
