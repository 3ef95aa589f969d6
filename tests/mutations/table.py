"""One small fault or more for each area, and the short tests that must find it.

A mutation that no test finds shows a hole in the tests; a line that has changed is to be written here anew.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A fault.

    Attributes:
        area: what is broken.
        file: under ``src/thalweg``.
        old: a text that occurs in it once.
        new: what takes its place.
        tests: under ``tests``, of which one must fail.
    """

    area: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        "order: a timer behind the rows of its time",
        "columns/ordering.py",
        'np.searchsorted(rows, timers, side="right")',
        'np.searchsorted(rows, timers, side="left")',
        "unit/test_ordering.py",
    ),
    Mutation(
        "order: outputs of rows in the rows' order",
        "columns/ordering.py",
        'row_places = row_places[np.argsort(result.source[row_places], kind="stable")]',
        'row_places = row_places[np.argsort(-result.source[row_places], kind="stable")]',
        "unit/test_ordering.py",
    ),
    Mutation(
        "watermark: the slowest lane holds it back",
        "engine/ingress.py",
        "return max(self.passed, min(self.lanes.values()) - self.node.lateness)",
        "return max(self.passed, max(self.lanes.values()) - self.node.lateness)",
        "unit/test_ingress.py",
    ),
    Mutation(
        "lateness: a row at the bound is on time",
        "engine/ingress.py",
        "late: Bools = times < minus(before[:-1], self.node.lateness)",
        "late: Bools = times <= minus(before[:-1], self.node.lateness)",
        "unit/test_ingress.py",
    ),
    Mutation(
        "release: rows up to the clock",
        "engine/ingress.py",
        '"right" if inclusive else "left"',
        '"left"',
        "unit/test_ingress.py",
    ),
    Mutation(
        "undo: a call that is made again sees the state from before",
        "compiler/keyed/replay.py",
        "before = np.array([place.before], place.table.records.dtype)",
        "before = np.array([place.table.records[place.entry]], place.table.records.dtype)",
        "unit/test_compiler_keyed.py",
    ),
    Mutation(
        "hash routing: a bucket by the high bits",
        "hashing.py",
        "np.int64(((hashes[i] >> np.uint64(32)) * buckets) >> np.uint64(32))",
        "np.int64(hashes[i] % buckets)",
        "unit/test_hashing.py",
    ),
    Mutation(
        "reorder buffer: nothing beyond the window",
        "workers/lockfree/reorder.py",
        "return following <= serial < following + int(mem[at + _SIZE])",
        "return following <= serial <= following + int(mem[at + _SIZE])",
        "unit/test_reorder.py",
    ),
    Mutation(
        "commit record: the chain in the order of the batches",
        "checkpoint/record.py",
        "            chain = (*chain, unit)\n        chains",
        "            chain = (unit, *chain)\n        chains",
        "unit/test_state_store.py unit/test_checkpoint_parts.py",
    ),
    Mutation(
        "garbage: what the last two records name stays",
        "checkpoint/cleaning.py",
        "named = {file for record in keep for file in record.files}",
        "named = {file for record in keep[-1:] for file in record.files}",
        "unit/test_state_store.py unit/test_checkpoint_parts.py",
    ),
    Mutation(
        "durable: a file is synced before it has its name",
        "checkpoint/durable.py",
        "        os.fsync(file.fileno())\n\n\ndef _link",
        "        pass\n\n\ndef _link",
        "unit/test_durable.py",
    ),
    Mutation(
        "sink: a file of a run that failed does not appear",
        "connectors/file_sink.py",
        "if not failed:",
        "if True:",
        "unit/test_io_sinks.py",
    ),
    Mutation(
        "ints: a sum beyond 64 bits is no value",
        "compiler/runtime/integers.py",
        'add_int: Final = _checked("sadd")',
        'add_int: Final = _checked("uadd")',
        "unit/test_compiler_ints.py",
    ),
    Mutation(
        "dedupe: a key is forgotten after its time",
        "flow/operators/windows.py",
        'f"state.timer = row.{time} + WITHIN"',
        'f"state.timer = row.{time} + WITHIN + 1"',
        "unit/test_windows.py",
    ),
    Mutation(
        "dedupe: other content is a conflict",
        "flow/operators/windows.py",
        'f"    if row.{payload} != state.payload_:"',
        'f"    if row.{payload} == state.payload_:"',
        "unit/test_windows.py",
    ),
    Mutation(
        "threads: they must be faster by a tenth",
        "elasticity/trial.py",
        "return cost * GAIN < self._before if self.in_threads",
        "return cost > self._before if self.in_threads",
        "unit/test_thread_trial.py",
    ),
    Mutation(
        "threads: what ends soon never goes there",
        "elasticity/trial.py",
        "or self._left_ns(now_ns) >= LEAST_LEFT_NS",
        "or self._left_ns(now_ns) >= 0",
        "unit/test_thread_trial.py",
    ),
]
