"""What ``print`` shows of public objects: a few lines that say what it is, however much it holds."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg import elasticity, locality, scheduling, simulate, testing
from thalweg.brief import brief
from thalweg.flow.operators.agg import Aggregate
from thalweg.workers.options import Options

MODULES: Final = (
    "thalweg", "thalweg.spark", "thalweg.scheduling", "thalweg.elasticity", "thalweg.locality",
    "thalweg.simulate", "thalweg.testing", "thalweg.datagen", "thalweg.embedded", "thalweg.stats",
    "thalweg.flow.operators.agg",
)  # fmt: skip
MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 20 * 120


class Row(NamedTuple):
    ts: int
    key: str


def flow_of(sinks: int = 1) -> tw.Flow:
    flow = tw.Flow("words")
    rows = flow.source("rows", Row, order_by="ts")
    for number in range(sinks):
        rows.sink(f"out{number}")
    return flow


def classes() -> dict[str, type]:
    """All public classes that users meet as objects, by where they are found."""
    found: dict[str, type] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        own = [one for one, its in vars(module).items() if getattr(its, "__module__", "") == name]
        for public in getattr(module, "__all__", own):
            thing = getattr(module, public)
            ours = inspect.isclass(thing) and thing.__module__.startswith("thalweg")
            if ours and not public.startswith("_") and not issubclass(thing, BaseException):
                found.setdefault(thing.__qualname__, thing)
    return found


def is_abstract(made: type) -> bool:
    return inspect.isabstract(made) or bool(getattr(made, "_is_protocol", False))


def large(annotation: str) -> Any:
    """A value for a field of that annotation, as large as one may meet."""
    if "Int64s" in annotation:
        return np.arange(100_000)
    if "pa.Table" in annotation:
        return pa.table({"n": range(100_000)})
    if annotation.startswith(("Mapping", "dict")):
        many = list(range(1_000))
        return {f"key {n}": many for n in range(10_000)}
    if annotation.startswith(("tuple", "Sequence", "list")):
        return tuple(range(100_000))
    if annotation.startswith("str"):
        return "word"
    if annotation.startswith(("int", "float")):
        return 2**62
    keys = (locality.KeyCount("x" * 1_000, 0, 1, 0),) * 1_000
    return locality.KeyLoads("operator", 100_000, keys, (1,) * 1_000)


def unwritten(made: type) -> frozenset[str]:
    return frozenset(getattr(made, "__abstractmethods__", ()))


def filled(made: type) -> Any:
    """An instance of a record with something large in each field, past what its checks would refuse."""
    concrete = type(made.__name__, (made,), {"__slots__": (), **dict.fromkeys(unwritten(made))})
    one = object.__new__(concrete)
    for field in dataclasses.fields(made):
        object.__setattr__(one, field.name, large(str(field.type)))
    return one


RECORDS: Final = sorted(
    name
    for name, made in classes().items()
    if dataclasses.is_dataclass(made) and name not in ("Stream", "Deduped", "Result")
)


@pytest.mark.parametrize("name", RECORDS)
def test_records(name: str) -> None:
    """A record with large contents is told in a line or some; its name is there, and no row of numbers."""
    text = repr(filled(classes()[name]))
    assert text.startswith(name)
    assert len(text.splitlines()) <= MOST_LINES, text
    assert len(text) <= MOST_CHARACTERS, text


def admission() -> scheduling.Admission:
    made = scheduling.Admission(scheduling.MostUrgentFirst(), slots=2, reserved=1)
    for n in range(500):
        made.arrive(f"query {n}", 0, n, interval_ns=1)
    return made


def session() -> testing.Session:
    made = testing.Session(flow_of())
    made.push("rows", *[Row(n, "a") for n in range(3)])
    made.end()
    return made


def memory() -> Any:
    sink = tw.spark.memory()
    table = pa.table({"n": pa.array(range(10_000), pa.int64())})
    for batch in range(100):
        sink.put(None, table, batch)  # type: ignore[arg-type]
    return sink


def exact() -> locality.ExactCounts:
    made = locality.ExactCounts({"a": 4})
    for n in range(10_000):
        made.take("a", n)
    return made


def results() -> Any:
    rows = [Row(n, "a") for n in range(10_000)]
    return tw.run(flow_of(sinks=40), {"rows": rows}, threading="manual")


def by_several() -> Any:
    return tw.run([flow_of()], {"words": {"rows": [Row(1, "a")]}})["words"]


def simulation() -> simulate.Simulation:
    operator = simulate.Operator(name="work", reads=("in",), cost_ns=10.0)
    graph = simulate.Graph((simulate.Source("in", simulate.Constant(1e3)),), (operator,))
    return simulate.Simulation(graph, policy=scheduling.FreeList())


def first_seen() -> locality.FirstSeen:
    report = locality.Report(1.0, {}, 1.0, (), 0, 0)
    made = locality.Assignment(2, {("a", n): 0 for n in range(9_000)}, {"a": (0, 1)}, report)
    return locality.FirstSeen(made, lambda operator, keys: [0] * len(keys))


def started() -> Any:
    return tw.start(threads=1)


#: By class, objects that are no records, made as users make them, and what their text says.
OBJECTS: Final[Mapping[str, tuple[Callable[[], Any], str]]] = {
    "Tradeoff": (lambda: tw.locality.Tradeoff(1.03, 0.5, 1.02, 10), "alpha=1.03"),
    "Flow": (flow_of, "'words', 2 operators"),
    "Stream": (lambda: flow_of().source("more", Row), "Stream of Row"),
    "KeyedStream": (lambda: flow_of().source("more", Row).key_by("key"), "by key of <Stream"),
    "Deduped": (lambda: flow_of().source("more", Row).dedupe("key"), "Stream of Row"),
    "Rejected": (lambda: tw.Rejected("map", "why", "row 3", "Row(1)"), "why"),
    "Result": (results, "10,000 rows in"),
    "Session": (session, "'out0': 3"),
    "Scheduler": (lambda: tw.spark.Scheduler(), "by MostUrgentFirst"),
    "Admission": (admission, "496 more"),
    "MemorySink": (memory, "1,000,000 rows of 100 batches"),
    "ExactCounts": (exact, "10,000 keys"),
    "FirstSeen": (first_seen, "0 keys placed"),
    "KeySketch": (lambda: locality.KeySketch({"a": 4}, ()), "KeySketch of ['a']"),
    "SpaceSaving": (lambda: locality.SpaceSaving(100), "100 counters"),
    "Simulation": (simulation, "1 operator"),
    "Combined": (lambda: elasticity.Combined(), "threads=ThreadLevels("),
    "Replicas": (lambda: elasticity.Replicas(), "Replicas("),
    "BatchCosts": (lambda: elasticity.BatchCosts(), "worth_trying=0.15"),
    "ThreadLevels": (lambda: elasticity.ThreadLevels(), "ThreadLevels("),
    "Utilization": (lambda: elasticity.Utilization(), "low="),
    "Running": (started, "0 of 0 flows"),
    "Options": (lambda: Options(), "threads=2"),
    "Aggregate": (lambda: Aggregate("sum", "n"), "'sum'"),
    "CollectSink": (lambda: tw.each(print), "each(print"),
    "BatchSink": (lambda: tw.batches(lambda batch: None), "batches("),
    "FileSink": (lambda: tw.to_files("a.csv"), "a.csv"),
    "TcpSink": (lambda: tw.to_tcp("localhost", 1, "json"), "'localhost', 1"),
    "PushSource": (lambda: tw.push_source(), "push_source"),
    "TcpSource": (lambda: tw.tcp_lines("localhost", 1, format="json"), "localhost:1"),
    "IterableSource": (lambda: tw.from_iterable(iter([])), "list_iterator"),
    "state": (lambda: tw.spark.console(), "max_rows=20"),
}  # fmt: skip

#: Classes that users do not make objects of, or whose objects only a run shows to a function.
NOT_MADE: Final = {
    "Control", "Input", "Output",  # ports, given to a driver loop
    "Query", "FlowRun",  # of a run, below and in the tests of Spark
    "FlowView", "PortView", "OperatorStats", "IdleDecision",  # named tuples of numbers, given to a policy
    "Phase", "FeatureKind",  # enumerations
    "Call", "Click", "KeyPair", "Sale",  # rows
    "LatencyHistogram", "MarkerLog", "ElasticHost", "Placement", "PickLike", "Controller",
    "Arrivals", "Load", "Grouping",
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name: str) -> None:
    """An object says what it is and how it stands, and not where it lies in memory."""
    made, says = OBJECTS[name]
    one = made()
    try:
        text = repr(one)
    finally:
        if name == "Running":
            one.stop()
    assert says in text
    assert " object at 0x" not in text
    assert len(text.splitlines()) <= MOST_LINES, text
    assert len(text) <= MOST_CHARACTERS, text


def test_no_class_is_left_out() -> None:
    """Every public class is in one of the tables above, so that a new one is thought of."""
    known = {*RECORDS, *OBJECTS, *NOT_MADE}
    assert sorted(name for name in classes() if name not in known) == []


def test_a_flow_beside_others() -> None:
    """A flow that runs beside others says how it stands."""
    with tw.start(threads=1) as running:
        run = running.add(flow_of(), {"rows": [Row(1, "a")]})
        run.wait()
        assert repr(run) == "<FlowRun 'words', ended, class 0>"
        assert "0 of 1 flow" in repr(running)


def test_large_things_in_short() -> None:
    """Collections show their first items and how many are left; what lies deep is named only."""
    assert brief([1, 2, 3]) == "[1, 2, 3]"
    assert brief((1,)) == "(1,)"
    assert brief(collections.Counter(a=1)) == "{'a': 1}"
    assert brief(frozenset([7])) == "{7}"
    assert brief("x" * 5_000).endswith("…")
    assert brief([[[[[1]]]]]) == "[[[list(…)]]]"
    assert brief(np.zeros(10_000)) == "<10,000 float64>"
    assert typing.cast(str, brief(Row(1, "a"))) == "Row(ts=1, key='a')"
