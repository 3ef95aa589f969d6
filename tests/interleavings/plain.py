"""The plain Python forms of the concurrent structures, loaded from their sources, which a test may change first.

Also those of :mod:`tests.interleavings.workers`: what threads do with the structures.
"""

from __future__ import annotations

import builtins
import importlib
import pathlib
from types import SimpleNamespace
from typing import Any, NamedTuple

PACKAGE = "thalweg.runtime"
STRUCTURES = ("rings", "reorder", "buckets", "parking")
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
    buckets: SimpleNamespace
    parking: SimpleNamespace
    workers: SimpleNamespace

    def __init__(self, *mutations: Mutation) -> None:
        self._mutations = mutations
        self._atomics = self._plain_atomics()
        for name in STRUCTURES:
            file = importlib.import_module(f"{PACKAGE}.{name}").__file__
            assert file is not None
            setattr(self, name, self._load(name, pathlib.Path(file)))
        self.workers = self._load("workers", WORKERS)

    @staticmethod
    def _plain_atomics() -> SimpleNamespace:
        module = importlib.import_module(f"{PACKAGE}.atomics")
        names = {name: getattr(value, "py_func", value) for name, value in vars(module).items()}
        return SimpleNamespace(**{**names, "shared": lambda function: function})

    def _load(self, name: str, file: pathlib.Path) -> SimpleNamespace:
        source = file.read_text()
        for mutation in self._mutations:
            if mutation.module == name:
                assert source.count(mutation.old) == 1, f"not found once: {mutation.old!r}"
                source = source.replace(mutation.old, mutation.new)
        namespace: dict[str, Any] = {
            "__name__": f"plain.{name}",
            "__builtins__": {**vars(builtins), "__import__": self._import},
        }
        exec(compile(source, str(file), "exec", dont_inherit=True), namespace)
        return SimpleNamespace(**namespace)

    def _import(self, name: str, *arguments: Any) -> Any:
        package, _, module = name.rpartition(".")
        if package == PACKAGE and module == "atomics":
            return self._atomics
        if package == PACKAGE and module in STRUCTURES:
            return getattr(self, module)
        return __import__(name, *arguments)
