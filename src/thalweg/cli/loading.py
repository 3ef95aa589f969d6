"""Flows out of Python files: ``FILE``, ``FILE:name``, or the name of a module."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import typer

from thalweg.errors import ThalwegError
from thalweg.flow.flow import Flow


def load_flow(place: str) -> Flow:
    """The flow at a place.

    Args:
        place: a Python file or the name of a module, and perhaps ``:`` and the name of the flow in it; without that,
            ``flow``, or the only flow there.

    Raises:
        typer.BadParameter: there is no such file, module or flow, or the file cannot be run.
    """
    file, name = _split(place)
    module = _load(file)
    flows = {k: v for k, v in vars(module).items() if isinstance(v, Flow) and not k.startswith("_")}
    if name:
        found = getattr(module, name, None)
        if isinstance(found, Flow):
            return found
        is_there = hasattr(module, name)
        what = (
            f"{name} is a {type(found).__name__}, not a flow"
            if is_there
            else f"it has no flow {name}"
        )
        raise typer.BadParameter(f"{file}: {what}; flows in it: {_names(flows)}")
    if "flow" in flows:
        return flows["flow"]
    if len(set(map(id, flows.values()))) == 1:
        return next(iter(flows.values()))
    if not flows:
        raise typer.BadParameter(
            f"{file} has no flow; make one at its top level: flow = tw.Flow('name')"
        )
    raise typer.BadParameter(
        f"{file} has several flows: {_names(flows)}; say which, for example {file}:{sorted(flows)[0]}"
    )


def _names(flows: dict[str, Flow]) -> str:
    return ", ".join(sorted(flows)) or "none"


def _split(place: str) -> tuple[str, str]:
    file, colon, name = place.rpartition(":")
    if colon and name.isidentifier():
        return file, name
    return place, ""


def _load(file: str) -> ModuleType:
    path = Path(file)
    if not path.is_file():
        if file.endswith(".py") or not all(part.isidentifier() for part in file.split(".")):
            raise typer.BadParameter(f"there is no file {file}")
        return _run(file, lambda: importlib.import_module(file))
    _make_importable(path.resolve().parent)
    name = (
        path.stem
        if path.stem.isidentifier() and path.stem not in sys.modules
        else "thalweg_user_flow"
    )
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise typer.BadParameter(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    _run(file, lambda: loader.exec_module(module))
    return module


def _make_importable(folder: Path) -> None:
    """Lets the file import its neighbours, here and in the workers that this process starts."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, paths)])


def _run(file: str, load: object) -> ModuleType:
    assert callable(load)
    try:
        return load()  # type: ignore[no-any-return]
    except ThalwegError:
        raise
    except ModuleNotFoundError as error:
        raise typer.BadParameter(f"{file}: {error}") from None
    except Exception as error:
        raise typer.BadParameter(f"{file} cannot be run: {_where(error)}") from None


def _where(error: Exception) -> str:
    """The error with the last line of the user's file that led to it."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} (line {error.lineno})"
    trace, line = error.__traceback__, 0
    while trace is not None:
        if "importlib" not in trace.tb_frame.f_code.co_filename and not line:
            code = trace.tb_frame.f_code
            line = trace.tb_lineno if code.co_name == "<module>" else 0
        trace = trace.tb_next
    place = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {error}{place}"
