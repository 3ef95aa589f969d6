"""Where rows come from and where they go; what is here by name is also what connectors of others are made of."""

from thalweg.connectors.contracts import (
    BadRow,
    Fed,
    Feed,
    RowSink,
    RowSource,
    Stop,
    never,
)
from thalweg.connectors.files import files
from thalweg.connectors.in_process.iterables import from_iterable
from thalweg.connectors.in_process.push import PushSource, push_source
from thalweg.connectors.logs import Log, LogReader, Positions, spread
from thalweg.connectors.messages import MessageParser, message_options
from thalweg.connectors.registry import Connector, host_and_name, path_argument
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
from thalweg.connectors.targets import GivenSink, Target, TargetWriter
from thalweg.connectors.tcp.sink import to_tcp
from thalweg.connectors.tcp.source import TcpSource, tcp_lines
from thalweg.connectors.written.file_sink import to_files

__all__ = [
    "BadRow",
    "BatchSink",
    "CollectSink",
    "Connector",
    "Fed",
    "Feed",
    "GivenSink",
    "Log",
    "LogReader",
    "MessageParser",
    "Positions",
    "PushSource",
    "RowSink",
    "RowSource",
    "Stop",
    "Target",
    "TargetWriter",
    "TcpSource",
    "as_source",
    "batches",
    "choose_sinks",
    "each",
    "files",
    "from_iterable",
    "host_and_name",
    "message_options",
    "never",
    "opened",
    "path_argument",
    "push_source",
    "runs_user_code",
    "spread",
    "tcp_lines",
    "to_files",
    "to_tcp",
]
