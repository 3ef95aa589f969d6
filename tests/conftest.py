"""Options and fixtures that all tests share."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from tests import quick, sizes

from thalweg.embedded import compile_loop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A first example may compile; how long one takes is nobody's promise.
settings.register_profile("thalweg", deadline=None)
settings.load_profile("thalweg")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--merge", action="store_true", help="run the tests that run at each merge, too"
    )
    parser.addoption(
        "--quick", action="store_true", help="leave out files of unit tests that take seconds"
    )
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption(
        "--explore", action="store_true", help="repeat explorations of unchanged sources"
    )
    parser.addoption("--exhaustive", action="store_true", help="run all tests, which takes hours")


def pytest_configure(config: pytest.Config) -> None:
    """Says how much to try before any test is imported, in each process."""
    whole = config.getoption("--slow") or config.getoption("--exhaustive")
    sizes.try_more(merge=config.getoption("--merge"), whole=whole)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves files out before they are imported."""
    return True if config.getoption("--quick") and quick.is_long(collection_path) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles the worker loop once, before the processes that share the tests would all do it."""
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        compile_loop.main(waits=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process runs all files that share the Spark session, so that it has one JVM.

    The other tests, also those that start drivers of their own, go where there is time.

    Marks for ``--dist loadgroup`` do not do it: pytest-xdist 3.8 writes them where pytest 9 no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling

    class BySession(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if _shares_session(nodeid.partition("::")[0]) else nodeid

    return BySession(config, log)


#: In a file of which a test shares the session.
_SESSION = re.compile(r"\bspark: (SparkSession|Any)\b|usefixtures\(\"spark\"\)")


@functools.cache
def _shares_session(file: str) -> bool:
    return bool(_SESSION.search((Path(__file__).parents[1] / file).read_text(encoding="utf-8")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what was not asked for."""
    asked = {"exhaustive": config.getoption("--exhaustive")}
    asked["slow"] = config.getoption("--slow") or asked["exhaustive"]
    asked["merge"] = config.getoption("--merge") or asked["slow"]
    for item in items:
        if _starts_spark(item) and "short" not in item.keywords:
            item.add_marker(pytest.mark.merge)
        for level in ("exhaustive", "slow", "merge"):
            if level in item.keywords and not asked[level]:
                item.add_marker(pytest.mark.skip(reason=f"{level}: runs with --{level}"))
                break


def _starts_spark(item: pytest.Item) -> bool:
    return "spark" in item.keywords or "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the process, with two cores; a test must leave its settings as they were."""
    from thalweg.spark.cluster.session import session  # here, since most tests need no Spark

    made = session("local[2]", conf={"spark.sql.shuffle.partitions": 2})
    yield made
    made.stop()
