"""What a foreachBatch function's thread knows of its query, and what can be set there.

Spark calls the function in the query's own thread of the JVM, and py4j keeps a Python thread tied to it. So local
properties that are set there reach the tasks of the batch, and a query that is stopped interrupts it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from thalweg.errors import EnvironmentProblem, SchedulingError

_POOL: Final = "spark.scheduler.pool"
_MODE: Final = "spark.scheduler.mode"
_QUERY: Final = "sql.streaming.queryId"
#: By this text Spark knows that a batch's function ended because the query is stopped, and takes it for no failure. The
#: error that py4j raises has a stack after it, on which Spark's pattern runs out of stack itself.
_INTERRUPTED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling sleep.\n"
    ": java.lang.InterruptedException"
)


def require_fair(context: SparkContext) -> None:
    """Refuses a session in which pools mean nothing.

    Raises:
        EnvironmentProblem: naming the setting.
    """
    mode = context.getConf().get(_MODE, "FIFO")
    if mode.upper() != "FAIR":
        raise EnvironmentProblem(
            f"a scheduler of queries needs {_MODE}=FAIR, and this Spark session has {mode}: jobs run in the"
            " order in which they come.\n"
            "  It cannot be changed while the session runs. Build it with tw.spark.session(), or set"
            f' .config("{_MODE}", "FAIR") where it is built.'
        )


def session_here() -> SparkSession:
    """The session of the calling thread.

    Raises:
        EnvironmentProblem: there is none.
    """
    session = SparkSession.getActiveSession()
    if session is None:
        raise EnvironmentProblem(
            "no Spark session is active in this thread; build one with tw.spark.session(), or pass session="
        )
    return session


@contextlib.contextmanager
def own_pool(context: SparkContext, name: str) -> Iterator[None]:
    """Jobs that the calling thread starts run in a pool of that name, which has an equal share of the cores."""
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError):  # the session may have been stopped
            context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


def batch_here(context: SparkContext) -> int:
    """The number of the batch that the calling thread runs; -1 where that is no query's thread."""
    found: Any = context.getLocalProperty("streaming.sql.batchId")
    return -1 if found is None else int(found)


def query_here(session: SparkSession) -> str:
    """How Spark names the query whose thread this is, through all its starts; "" where it is none's."""
    found: Any = session.sparkContext.getLocalProperty(_QUERY)
    return found or ""


def rows_of_last_batch(session: SparkSession) -> int | None:
    """Rows of the batch before, of the query whose thread this is, as Spark counted them; None where it has not."""
    query = session.sparkContext.getLocalProperty(_QUERY)
    if query is None:
        return None
    jvm: Any = session._jvm
    try:
        # The session of a foreachBatch function is a copy, whose own list of queries is empty.
        running = session._jsparkSession.sharedState().activeStreamingQueries()
        stream = running.get(jvm.java.util.UUID.fromString(query))
        progress = None if stream is None else stream.lastProgress()
        return None if progress is None else int(progress.numInputRows())
    except Py4JError:
        return None


def refuse_interrupted(session: SparkSession, what: str) -> None:
    """Raises where the query whose thread this is has been stopped; Spark takes that for its ordinary end.

    Raises:
        SchedulingError: it has been.
    """
    jvm: Any = session._jvm
    try:
        jvm.java.lang.Thread.sleep(1)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.lang.InterruptedException":
            raise
        raise SchedulingError(f"{what}: the query is stopped\n{_INTERRUPTED}") from None
