"""Files are read and decoded in a thread beside the operators, a few chunks ahead of them.

Decoding lets go of the interpreter's lock for most of its time, so it costs the thread that feeds the engine nothing.
What lies between the two is bounded: the reader waits while as much lies there as a chunk or two.
"""

from __future__ import annotations

import threading
from typing import Final

from thalweg.connectors.contracts import Feed, RowSource, Stop
from thalweg.connectors.embedded.log_source import LogSource
from thalweg.connectors.files import FileSource
from thalweg.connectors.in_process.handover import Handover
from thalweg.embedded.amount import is_small
from thalweg.engine.machine import usable_processors

#: Chunks that may lie between the reader and the engine.
_CHUNKS: Final = 2
#: How long a reader that reads is waited for at the end, seconds.
_GRACE_S: Final = 2.0


def is_worth_a_thread(source: RowSource) -> bool:
    """Whether a source is decoded, has more than a little to read, and there is a processor to do so."""
    if usable_processors() == 1:
        return False
    return isinstance(source, LogSource) or (
        isinstance(source, FileSource) and (source.follow or not is_small(source))
    )


def read_ahead(name: str, feed: Feed, chunk_rows: int, stop: Stop) -> Feed:
    """The chunks of a feed, in its order, read in a thread of its own that ends with this generator.

    Args:
        name: of the source.
        feed: of chunks of about ``chunk_rows`` rows; the thread closes it.
        stop: ends it soon.

    Raises:
        BaseException: what the feed raises, behind the chunks before it.
    """
    handover = Handover(_CHUNKS * chunk_rows, linger_s=0.0)
    reader = threading.Thread(
        target=_read, args=(feed, handover), name=f"reader {name}", daemon=True
    )
    reader.start()
    try:
        while taken := handover.take(1, stop):
            yield from taken
    finally:
        handover.close()
        reader.join(_GRACE_S)


def _read(feed: Feed, handover: Handover) -> None:
    try:
        for fed in feed:
            if not handover.put(fed, len(fed[0])):
                return
    except BaseException as error:
        handover.fail(error)
    finally:
        feed.close()
        handover.close()
