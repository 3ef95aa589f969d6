"""``--input NAME=PATH,format=csv,key=value`` and ``--output NAME=PATH``: read, checked, formats found out."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import typer

from thalweg.checkpoint.paths import is_here, resolve
from thalweg.checks import meant
from thalweg.connectors.files import BELOW, FORMATS, nothing_at
from thalweg.connectors.readers import Format, ReadOptions, list_files
from thalweg.connectors.registry import Role, described, require_known, scheme_of
from thalweg.connectors.written.spark_options import writer_options
from thalweg.errors import BuildError, DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Sink, Source

#: The format that the end of a name tells.
_EXTENSIONS: Final[Mapping[str, Format]] = {
    **{end.removeprefix("."): format for end, format in FORMATS.items()},
    "tsv": "csv",
    "text": "text",
}
_COMPRESSED: Final = re.compile(r"\.(gz|bz2|zst|xz)$")
_OPTION: Final = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
_OUTPUT_FORMATS: Final = ("parquet", "json", "csv")
_FLAGS: Final = ("header", "recursive", "growing", "partitions")
_YES: Final = ("true", "yes", "1")
_NO: Final = ("false", "no", "0")
_NUMBERS: Final = ("max_files_per_trigger", "max_rows")
_LISTS: Final = ("null_values", "true_values", "false_values", "timestamp_formats")
_READ_OPTIONS: Final = tuple(f.name for f in dataclasses.fields(ReadOptions) if f.name != "format")
_FILE_OPTIONS: Final = ("recursive", "max_files_per_trigger")


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """One ``--input`` or ``--output``: the name it is for, where, in which format, and options."""

    name: str
    path: str
    format: str
    options: Mapping[str, Any]
    #: what an address with a connector's scheme stands for, such as ``kafka://…``; None: it is a path
    described: Any = None


def read_inputs(given: Sequence[str], sources: Sequence[Source]) -> dict[str, Given]:
    """The inputs by source name.

    Raises:
        typer.BadParameter: a name, format or option is not known, or a source has no input.
    """
    records = {source.name: source for source in sources}
    out = _by_name("--input", given, list(records))
    for missing in records.keys() - out.keys():
        raise typer.BadParameter(
            f"source {missing!r} has no input; add --input {missing}=PATH", param_hint="--input"
        )
    return {name: _input(one, records[name]) for name, one in out.items()}


def read_outputs(given: Sequence[str], sinks: Sequence[Sink]) -> dict[str, Given]:
    """The outputs by sink name; sinks that are not named are computed and counted only.

    Raises:
        typer.BadParameter: a name or format is not known.
    """
    out = _by_name("--output", given, [sink.name for sink in sinks])
    return {name: _output(one) for name, one in out.items()}


def _by_name(flag: str, given: Sequence[str], names: list[str]) -> dict[str, Given]:
    what = "source" if flag == "--input" else "sink"
    out: dict[str, Given] = {}
    for text in given:
        one = parse(text, names)
        if not one.name:
            if len(names) > 1:
                raise typer.BadParameter(
                    f"{text!r} does not say which {what} it is for: {', '.join(names)};"
                    f" write {names[0]}={text}",
                    param_hint=flag,
                )
            one = dataclasses.replace(one, name=names[0])
        if one.name not in names:
            raise typer.BadParameter(
                f"the flow has no {what} {one.name!r}; it has {', '.join(names)}{meant(one.name, names)}",
                param_hint=flag,
            )
        if one.name in out:
            raise typer.BadParameter(f"{what} {one.name!r} is given twice", param_hint=flag)
        out[one.name] = one
    return out


def parse(text: str, names: Sequence[str] = ()) -> Given:
    """The parts of one argument; a part without ``=`` after a comma belongs to the part before it.

    The text before the first ``=`` is a name if it is one of ``names`` or could be one, else a part of the path.

    Example::

        >>> parse("clicks=data/clicks,format=csv,null_values=NA")
        Given(name='clicks', path='data/clicks', format='csv', options={'null_values': 'NA'})
    """
    first, *rest = text.split(",")
    options: dict[str, str] = {}
    for part in rest:
        found = _OPTION.fullmatch(part)
        if found is not None:
            options[found[1]] = found[2]
        elif options:
            last = list(options)[-1]
            options[last] += f",{part}"
        else:
            first += f",{part}"
    name, equals, path = first.partition("=")
    if not equals or not (name in names or _NAME.fullmatch(name)):
        name, path = "", first
    return Given(name, path, options.pop("format", "").lower(), options)


def _described(given: Given, flag: str) -> Given:
    """An address of a connector's scheme with what it stands for; a path as it is."""
    if scheme_of(given.path) is None:
        try:
            require_known(given.path)
        except BuildError as error:
            raise typer.BadParameter(f"{given.name}: {error}", param_hint=flag) from None
        return given
    role: Role = "source" if flag == "--input" else "sink"
    options = {**given.options, **({"format": given.format} if given.format else {})}
    try:
        return dataclasses.replace(given, described=described(given.path, role, options))
    except (BuildError, EnvironmentProblem) as error:
        raise typer.BadParameter(f"{given.name}: {error}", param_hint=flag) from None


def _input(given: Given, source: Source) -> Given:
    given = _described(given, "--input")
    if given.described is not None:
        return given
    known = (*_READ_OPTIONS, *_FILE_OPTIONS)
    for key in given.options:
        if key not in known:
            raise typer.BadParameter(
                f"{given.name}: there is no option {key!r}; there are {', '.join(known)}{meant(key, known)}",
                param_hint="--input",
            )
    options = {key: _value(key, value) for key, value in given.options.items()}
    format = given.format
    more: dict[str, Any] = {}
    if not format:
        format, more = _found_format(given, source, options)
    elif format not in get_args(Format):
        raise typer.BadParameter(
            f"{given.name}: format is one of {', '.join(get_args(Format))}, not {format!r}",
            param_hint="--input",
        )
    return dataclasses.replace(given, format=format, options={**more, **options})


def _value(key: str, text: str) -> Any:
    if key in _FLAGS:
        return _flag(key, text)
    if key in _LISTS:
        return tuple(text.split("|"))
    if key in _NUMBERS:
        return _number(key, text, "--input")
    if key in ("quote", "epoch_unit") and text.lower() == "none":
        return None
    return text.replace("\\t", "\t") if key == "delimiter" else text


def _flag(key: str, text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise typer.BadParameter(
            f"{key} is {' or '.join(_YES)}, or {' or '.join(_NO)}, not {text!r}",
            param_hint="--input",
        )
    return text.lower() in _YES


def _number(key: str, text: str, flag: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(
            f"{key} is a whole number from 1 on, not {text!r}", param_hint=flag
        )
    return int(text)


def _found_format(
    given: Given, source: Source, options: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The format that the names of the files say, or text where the record is one of lines."""
    try:
        fs, path = resolve(given.path)
        deep = bool(options.get("recursive") or options.get("partitions"))
        names = [file.path for file in list_files(fs, path, recursive=deep)]
    except DataError as error:
        raise typer.BadParameter(f"{given.name}: {error}", param_hint="--input") from None
    found = {extension_of(name) for name in names}
    formats = {_EXTENSIONS[one] for one in found if one in _EXTENSIONS}
    if len(formats) == 1:
        return formats.pop(), {"delimiter": "\t"} if found == {"tsv"} else {}
    if not formats and set(source.record.names) <= {"line", "path", "number"}:
        return "text", {}
    said = (
        f"the files there end in {', '.join(sorted(found))}"
        if names
        else nothing_at([given.path]).replace(BELOW, ",recursive=yes")
    )
    raise typer.BadParameter(
        f"{given.name}: the format of {given.path} is not clear ({said});"
        f" add ,format={' or '.join(get_args(Format))}",
        param_hint="--input",
    )


def extension_of(path: str) -> str:
    """The end of a file's name without that of a compression, "csv" of ``a.csv.gz``."""
    name = _COMPRESSED.sub("", path.rstrip("/").rpartition("/")[2])
    return name.rpartition(".")[2].lower() if "." in name else ""


def _discard(given: Given) -> Given:
    if given.options or given.format:
        raise typer.BadParameter(
            f"{given.name}: discard has no format and no options; a folder of this name is ./discard",
            param_hint="--output",
        )
    return dataclasses.replace(given, format="discard")


def _console(given: Given) -> Given:
    for key in given.options:
        if key != "max_rows":
            raise typer.BadParameter(
                f"{given.name}: console has no option {key!r}, but max_rows", param_hint="--output"
            )
    if given.format:
        raise typer.BadParameter(
            f"{given.name}: console has no format, but got {given.format!r}", param_hint="--output"
        )
    options = {key: _number(key, text, "--output") for key, text in given.options.items()}
    return dataclasses.replace(given, format="console", options=options)


def _output(given: Given) -> Given:
    if given.path == "console":
        return _console(given)
    if given.path == "discard":
        return _discard(given)
    given = _described(given, "--output")
    if given.described is not None:
        return given
    end = extension_of(given.path)
    # An output is a folder, so its name need not end in anything; where it does in another format, that is meant.
    format = given.format or _EXTENSIONS.get(end, end if end.isalpha() else "parquet")
    if format not in _OUTPUT_FORMATS:
        raise typer.BadParameter(
            f"{given.name}: format is one of {', '.join(_OUTPUT_FORMATS)}, or the path is console or discard;"
            f" not {format!r}{'' if given.format else f' (the path is {given.path}: add ,format=)'}",
            param_hint="--output",
        )
    if is_here(given.path) and os.path.isfile(resolve(given.path)[1]):
        raise typer.BadParameter(
            f"{given.name}: {given.path} is a file, and an output is a folder with a folder for each batch;"
            " name another, or move the file",
            param_hint="--output",
        )
    if given.options:
        _check_written(format, given)
    return dataclasses.replace(given, format=format)


def _check_written(format: str, given: Given) -> None:
    try:
        writer_options(format, given.options)  # type: ignore[arg-type]
    except BuildError as error:
        raise typer.BadParameter(f"{given.name}: {error}", param_hint="--output") from None
