"""Where the rows of an embedded run come from and where they go."""

from thalweg.connectors.contracts import (
    BadRow,
    Fed,
    Feed,
    GivenSink,
    RowSink,
    RowSource,
    Stop,
    never,
)
from thalweg.connectors.file_sink import to_files
from thalweg.connectors.files import files
from thalweg.connectors.iterables import from_iterable
from thalweg.connectors.push import PushSource, push_source
from thalweg.connectors.sinks import (
    BatchSink,
    CollectSink,
    batches,
    choose_sinks,
    each,
    opened,
    runs_user_code,
)
from thalweg.connectors.sources import as_source
from thalweg.connectors.tcp_sink import to_tcp
from thalweg.connectors.tcp_source import TcpSource, tcp_lines

__all__ = [
    "BadRow",
    "BatchSink",
    "CollectSink",
    "Fed",
    "Feed",
    "GivenSink",
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
