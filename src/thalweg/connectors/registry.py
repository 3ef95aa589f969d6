"""Connectors by the scheme of an address: ``kafka://host:9092/topic``, ``delta:/data/out``.

Those of other packages join by an entry point of the group ``thalweg.connectors``, whose name is the scheme and whose
object is a :class:`Connector`. Options of an address become the keywords of the function that a program would call,
by the types that it says.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

from thalweg.checks import meant
from thalweg.errors import BuildError

GROUP: Final = "thalweg.connectors"
_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+):(.*)", re.DOTALL)
_FLAGS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Role = Literal["source", "sink"]
#: The arguments by place that an address stands for, without its options.
Arguments = Callable[[str], Sequence[str]]


def path_argument(rest: str) -> Sequence[str]:
    """The address of a path: all behind the scheme."""
    return [rest.removeprefix("//") if rest.startswith("///") else rest]


def host_and_name(rest: str) -> Sequence[str]:
    """The address ``//host:port/name``, of servers and what lies there.

    Raises:
        BuildError: a part is missing.
    """
    host, _, name = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not host or not name:
        raise BuildError("expected //HOST:PORT/NAME behind the scheme")
    return [host, name]


def server_and_table(rest: str) -> Sequence[str]:
    """The address ``//user@host:port/database/table`` of PostgreSQL, as its own address and the table.

    Raises:
        BuildError: a part is missing.
    """
    server, _, table = rest.rpartition("/")
    if not rest.startswith("//") or server.count("/") < 3 or not table:
        raise BuildError("expected //USER@HOST:PORT/DATABASE/TABLE behind the scheme")
    return [f"postgresql:{server}", table]


def redis_and_stream(rest: str) -> Sequence[str]:
    """The address ``//user@host:port/stream`` or ``//host:port/0/stream``, as the server's address and the stream.

    Raises:
        BuildError: a part is missing.
    """
    server, _, stream = rest.rpartition("/")
    if not rest.startswith("//") or server.count("/") < 2 or not stream:
        raise BuildError(
            "expected //HOST:PORT/STREAM or //HOST:PORT/DATABASE/STREAM behind the scheme"
        )
    return [f"redis:{server}", stream]


def nats_and_name(rest: str) -> Sequence[str]:
    """The address ``//host:port/name`` of NATS, as the server's address and the stream or subject.

    Raises:
        BuildError: a part is missing.
    """
    host, name = host_and_name(rest)
    return [f"nats://{host}", name]


def whole_address(scheme: str) -> Arguments:
    """The address ``//host:port/path`` with its scheme in front."""
    return lambda rest: [f"{scheme}:{rest}"]


@dataclasses.dataclass(frozen=True, slots=True)
class Connector:
    """What stands behind a scheme.

    Args:
        source: the function that describes an input, or ``"module:function"``; None: there is none.
        sink: the same for an output.
        arguments: how the address behind the scheme becomes their arguments by place.
        example: an address, for messages.
    """

    source: Callable[..., Any] | str | None = None
    sink: Callable[..., Any] | str | None = None
    arguments: Arguments = path_argument
    example: str = ""


#: The connectors of this package; functions are loaded when they are asked for.
BUILT_IN: Final[dict[str, Connector]] = {
    "kafka": Connector(
        "thalweg.connectors.kafka:kafka",
        "thalweg.connectors.kafka:to_kafka",
        host_and_name,
        "kafka://localhost:9092/orders",
    ),
    "delta": Connector(
        source="thalweg.connectors.delta:delta",
        sink="thalweg.connectors.delta:to_delta",
        example="delta:/data/out",
    ),
    "iceberg": Connector(
        sink="thalweg.connectors.iceberg:to_iceberg",
        arguments=host_and_name,
        example="iceberg://catalog/namespace.table",
    ),
    "postgres": Connector(
        source="thalweg.connectors.postgres:postgres",
        sink="thalweg.connectors.postgres:to_postgres",
        arguments=server_and_table,
        example="postgres://user@host:5432/database/table",
    ),
    "postgres-changes": Connector(
        source="thalweg.connectors.postgres:postgres_changes",
        arguments=server_and_table,
        example="postgres-changes://user@host:5432/database/publication?slot=name",
    ),
    "redis": Connector(
        "thalweg.connectors.redis:redis_stream",
        "thalweg.connectors.redis:to_redis",
        redis_and_stream,
        "redis://localhost:6379/orders",
    ),
    "nats": Connector(
        "thalweg.connectors.nats:nats",
        "thalweg.connectors.nats:to_nats",
        nats_and_name,
        "nats://localhost:4222/ORDERS",
    ),
    "mqtt": Connector(
        source="thalweg.connectors.live:mqtt",
        arguments=host_and_name,
        example="mqtt://localhost:1883/sensors/#",
    ),
    **{
        scheme: Connector(
            source="thalweg.connectors.live:websocket",
            arguments=whole_address(scheme),
            example=f"{scheme}://host/feed",
        )
        for scheme in ("ws", "wss")
    },
    **{
        scheme: Connector(
            sink="thalweg.connectors.live:to_http",
            arguments=whole_address(scheme),
            example=f"{scheme}://host/rows",
        )
        for scheme in ("http", "https")
    },
}


def schemes() -> dict[str, str]:
    """The schemes there are, each with an example of an address."""
    found = {name: one.example for name, one in BUILT_IN.items()}
    return found | {one.name: "" for one in entry_points(group=GROUP)}


def scheme_of(address: str) -> str | None:
    """The scheme of an address, if it is a connector's; None: it is a path."""
    found = _ADDRESS.fullmatch(address)
    return found[1] if found is not None and found[1] in schemes() else None


#: Schemes of file systems, whose addresses are paths.
_FILE_SYSTEMS: Final = (
    "file", "hdfs", "viewfs", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "dbfs",
)  # fmt: skip


def require_known(address: str) -> None:
    """Refuses an address with a scheme that nobody has; a path may have a colon where something lies there.

    Raises:
        BuildError: naming the schemes.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or found[1] in (*schemes(), *_FILE_SYSTEMS) or os.path.exists(address):
        return
    known = sorted(schemes())
    raise BuildError(
        f"{address}: there is no scheme {found[1]!r}; there are {', '.join(known)}{meant(found[1], known)}, and for"
        f" paths {', '.join(_FILE_SYSTEMS)}"
    )


def connector(scheme: str) -> Connector:
    """The connector of a scheme.

    Raises:
        BuildError: there is none, or its package fails to load.
    """
    if scheme in BUILT_IN:
        return BUILT_IN[scheme]
    for one in entry_points(group=GROUP, name=scheme):
        try:
            made = one.load()
        except Exception as error:
            raise BuildError(
                f"connector {scheme!r} of {one.value} fails to load: {error}"
            ) from error
        if not isinstance(made, Connector):
            raise BuildError(
                f"connector {scheme!r}: {one.value} is {type(made).__name__}, expected a thalweg Connector"
            )
        return made
    raise BuildError(f"there is no connector {scheme!r}; there are {', '.join(sorted(schemes()))}")


def described(
    address: str, role: Role, options: Mapping[str, str] = types.MappingProxyType({})
) -> Any:
    """The description that an address stands for.

    Args:
        address: with a scheme; options stand behind ``?`` or in ``options``.
        role: of an input or of an output.
        options: texts by the names of keywords.

    Raises:
        BuildError: naming what of the address is not known.
    """
    scheme, rest = _ADDRESS.fullmatch(address).groups()  # type: ignore[union-attr]
    found = connector(scheme)
    factory = found.source if role == "source" else found.sink
    if factory is None:
        raise BuildError(
            f"{scheme} is no {'input' if role == 'source' else 'output'}, but the other"
        )
    if isinstance(factory, str):
        module, _, name = factory.partition(":")
        factory = getattr(importlib.import_module(module), name)
    bare, _, query = rest.partition("?")
    try:
        places = found.arguments(bare)
    except BuildError as error:
        like = f", like {found.example}" if found.example else ""
        raise BuildError(f"{address}: {error}{like}") from None
    texts = dict(parse_qsl(query, keep_blank_values=True)) | dict(options)
    return factory(*places, **keywords(factory, len(places), texts))


def keywords(factory: Callable[..., Any], places: int, texts: Mapping[str, str]) -> dict[str, Any]:
    """Texts as the keywords of a function, by the types of its parameters.

    Raises:
        BuildError: there is no such keyword, or the text is none of its values.
    """
    where = factory.__name__
    parameters = list(inspect.signature(factory).parameters.values())[places:]
    hints = typing.get_type_hints(factory)
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    known = {
        one.name: hints.get(one.name, str)
        for one in parameters
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    }
    out = {}
    for name, text in texts.items():
        if name not in known and not open_ended:
            raise BuildError(
                f"{where}: there is no option {name!r}; there are {', '.join(known)}{meant(name, known)}"
            )
        out[name] = _value(where, name, known.get(name, str), text)
    return out


def _value(where: str, name: str, hint: Any, text: str) -> Any:
    kinds = list(_kinds(hint))
    if type(None) in kinds and text.lower() in ("", "none"):
        return None
    if bool in kinds and text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if any(typing.get_origin(one) in (tuple, list) or one is Sequence for one in kinds):
        return tuple(text.split("|"))
    if str in kinds or not kinds:
        return text
    raise BuildError(f"{where}: {name} cannot be {text!r}")


def _kinds(hint: Any) -> typing.Iterator[Any]:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        for one in typing.get_args(hint):
            yield from _kinds(one)
    elif origin is Literal:
        yield from {type(one) for one in typing.get_args(hint)}
    elif origin is typing.Annotated:
        yield from _kinds(typing.get_args(hint)[0])
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        yield tuple[str, ...]
    else:
        yield hint
