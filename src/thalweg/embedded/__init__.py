"""The embedded host: flows run in this process, without Spark."""

from thalweg.embedded.dropped import tell_dropped
from thalweg.embedded.entry import run
from thalweg.embedded.flow_run import FlowRun
from thalweg.embedded.host import Result, collect
from thalweg.embedded.running import Running, start

__all__ = ["FlowRun", "Result", "Running", "collect", "run", "start", "tell_dropped"]
