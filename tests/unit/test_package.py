"""The package itself: its names."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from typing import Final

import pytest

import thalweg as tw
from thalweg.flow import state_class

#: Modules whose package has a function of their name: they are reached by ``from`` alone, and are nobody's entry.
HIDDEN: Final = {
    "thalweg.locality.evaluate", "thalweg.compiler.freeze", "thalweg.connectors.files",
    "thalweg.testing.reference", "thalweg.spark.lower", "thalweg.spark.cluster.session",
}  # fmt: skip


def test_the_state_decorator() -> None:
    """``tw.state`` declares a state class, whatever was imported before."""
    import thalweg.checkpoint.inspect as inspect_state

    assert callable(inspect_state.describe)

    @tw.state
    class Count:
        n: int = 7

    assert state_class.state_spec(Count).schema.names == ("n",)
    assert Count().n == 7


@pytest.mark.slow
def test_modules_are_imported_by_their_names() -> None:
    """``import thalweg.a.b as x`` gives the module, also where the package has something of that name."""
    names = [one.name for one in pkgutil.walk_packages(tw.__path__, "thalweg.")]
    names = [one for one in names if not one.endswith(("__main__", ".plots"))]
    lines = [
        f"import {one} as x; assert x is sys.modules[{one!r}], {one!r}"
        for one in names
        if one not in HIDDEN
    ]
    subprocess.run([sys.executable, "-c", "\n".join(["import sys", *lines])], check=True)


def test_names_are_listed_and_moved_ones_warn() -> None:
    """``dir`` gives all public names, the lazy ones too; names of times tell where they are now."""
    assert dir(tw) == sorted(tw.__all__)
    assert all(hasattr(tw, name) for name in tw.__all__)
    with pytest.warns(DeprecationWarning, match=r"tw\.times\.weekday"):
        assert tw.weekday is tw.times.weekday  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"tw\.hours\(1\).*tw\.times\.hour\(time\)"):
        tw.hour(1)  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match=r"tw\.scheduling\.Admitted now"):
        assert tw.scheduling.Decision is tw.scheduling.Admitted
    with pytest.warns(DeprecationWarning, match=r"tw\.testing\.CheckedResult now"):
        assert tw.testing.Result is tw.testing.CheckedResult
