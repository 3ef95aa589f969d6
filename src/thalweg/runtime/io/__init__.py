"""Where the rows of an embedded run come from and where they go."""

from thalweg.runtime.io.contracts import BadRow, Fed, Feed, RowSink, RowSource, Stop, never
from thalweg.runtime.io.file_sink import to_files
from thalweg.runtime.io.files import files
from thalweg.runtime.io.iterables import from_iterable
from thalweg.runtime.io.push import PushSource, push_source
from thalweg.runtime.io.sinks import (
    CollectSink,
    batches,
    choose_sinks,
    each,
    opened,
    runs_user_code,
)
from thalweg.runtime.io.sources import as_source
from thalweg.runtime.io.tcp_sink import to_tcp
from thalweg.runtime.io.tcp_source import TcpSource, tcp_lines

__all__ = [
    "BadRow",
    "CollectSink",
    "Fed",
    "Feed",
    "PushSource",
    "RowSink",
    "RowSource",
    "Stop",
    "TcpSource",
    "as_source",
    "batches",
    "choose_sinks",
    "each",
    "files",
    "from_iterable",
    "never",
    "opened",
    "push_source",
    "runs_user_code",
    "tcp_lines",
    "to_files",
    "to_tcp",
]
