"""The plain Python forms of the concurrent structures, loaded from their sources, which a test may change first.

Also those of :mod:`tests.interleavings.workers`, which is what threads do with the structures, and of the runtime's
own dispatch and worker loop. What those read of native blocks stands in :attr:`Structures.heap`; time stands still.
"""

from __future__ import annotations

import builtins
import importlib
import pathlib
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOM = "thalweg.workers"
ATOMICS = f"{ROOM}.lockfree.atomics"
CLOCKS = f"{ROOM}.lockfree.clocks"
CALLS = "thalweg.compiler.runtime.calls"
#: The modules that are loaded as plain Python, each behind those that it calls.
STRUCTURES = {
    name.rpartition(".")[2]: f"{ROOM}.{name}"
    for name in (
        "lockfree.rings", "lockfree.reorder", "lockfree.hybrid_queue", "lockfree.parking", "lockfree.sleepers",
        "memory.places", "worker_loop.worklists", "memory.handles", "memory.room", "worker_loop.runnable",
        "worker_loop.waking", "worker_loop.dispatch", "worker_loop.steps", "worker_loop.round_barrier",
        "worker_loop.next_operator", "worker_loop.tokens", "worker_loop.unit_runs", "worker_loop.visits",
        "worker_loop.loop",
    )
}  # fmt: skip
WORKERS = pathlib.Path(__file__).with_name("workers.py")


class Mutation(NamedTuple):
    """A change of a module's source that must be found: the text occurs exactly once."""

    module: str
    old: str
    new: str


class Structures:
    """The modules, calling each other as plain Python, with some mutations."""

    rings: SimpleNamespace
    reorder: SimpleNamespace
    hybrid_queue: SimpleNamespace
    parking: SimpleNamespace
    sleepers: SimpleNamespace
    waking: SimpleNamespace
    places: SimpleNamespace
    worklists: SimpleNamespace
    handles: SimpleNamespace
    room: SimpleNamespace
    dispatch: SimpleNamespace
    steps: SimpleNamespace
    runnable: SimpleNamespace
    round_barrier: SimpleNamespace
    next_operator: SimpleNamespace
    tokens: SimpleNamespace
    unit_runs: SimpleNamespace
    visits: SimpleNamespace
    loop: SimpleNamespace
    workers: SimpleNamespace

    def __init__(self, *mutations: Mutation) -> None:
        self._mutations = mutations
        #: Words outside the shared memory, of which word i has the address 8 * i. They do not change during a run.
        self.heap: list[int] = []
        self._replaced = {
            ATOMICS: self._with(
                ATOMICS, shared=lambda function: function, brief=lambda function: function
            ),
            CALLS: self._plain_calls(),
            CLOCKS: self._with(CLOCKS, now_ns=lambda: 0),
        }
        for name, module in STRUCTURES.items():
            file = importlib.import_module(module).__file__
            assert file is not None
            setattr(self, name, self._load(name, pathlib.Path(file)))
        self.workers = self._load("workers", WORKERS)

    @staticmethod
    def _with(module: str, **others: Any) -> SimpleNamespace:
        """A module as plain Python, with other functions in place of some."""
        variables = vars(importlib.import_module(module)).items()
        names = {name: getattr(value, "py_func", value) for name, value in variables}
        return SimpleNamespace(**{**names, **others})

    def _plain_calls(self) -> SimpleNamespace:
        def no_machine_code(*arguments: int) -> tuple[int, int]:
            raise AssertionError(f"machine code is called: {arguments}")

        return SimpleNamespace(get_i=lambda address: self.heap[address // 8], call3=no_machine_code)

    def _load(self, name: str, file: pathlib.Path) -> SimpleNamespace:
        source = file.read_text()
        for mutation in self._mutations:
            if mutation.module == name:
                assert source.count(mutation.old) == 1, f"not found once: {mutation.old!r}"
                source = source.replace(mutation.old, mutation.new)
        # A mutation may do without an atomic operation where the module has only those.
        atomics = self._replaced[ATOMICS]
        namespace: dict[str, Any] = {
            "load": atomics.load,
            "store": atomics.store,
            "__name__": f"plain.{name}",
            "__builtins__": {**vars(builtins), "__import__": self._import},
        }
        exec(compile(source, str(file), "exec", dont_inherit=True), namespace)
        return SimpleNamespace(**namespace)

    def _import(self, name: str, *arguments: Any) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        short = name.rpartition(".")[2]
        if STRUCTURES.get(short) == name:
            return getattr(self, short)
        return __import__(name, *arguments)
