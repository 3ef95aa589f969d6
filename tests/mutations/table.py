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
        "kafka: partitions are merged by what has come of each",
        "connectors/kafka/lanes.py",
        "cut = bisect.bisect_right if place <= last else bisect.bisect_left",
        "cut = bisect.bisect_right",
        "connectors/test_kafka_reader.py",
    ),
    Mutation(
        "kafka: the time of a partition only rises",
        "connectors/kafka/lanes.py",
        "itertools.accumulate(times, max, initial=self._top)",
        "itertools.accumulate(times, lambda _, time: time, initial=self._top)",
        "connectors/test_kafka_reader.py",
    ),
    Mutation(
        "kafka: a tail of marks of transactions ends",
        "connectors/kafka/fetching.py",
        "if lane is not None and one.offset() > lane.next:",
        "if lane is not None and one.offset() > lane.stop:",
        "connectors/test_kafka_reader.py",
    ),
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
        "places[starts[source[i]]] = i",
        "places[len(source) - 1 - starts[source[i]]] = i",
        "unit/test_ordering.py",
    ),
    Mutation(
        "watermark: the slowest lane holds it back",
        "engine/ingress.py",
        "return max(self.passed, min(tops) - self.node.lateness) if tops else self.passed",
        "return max(self.passed, max(tops) - self.node.lateness) if tops else self.passed",
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
        "release: rows up to the watermark",
        "engine/ingress.py",
        '"right" if inclusive else "left"',
        '"left"',
        "unit/test_ingress.py",
    ),
    Mutation(
        "undo: a call that fails leaves the state from before",
        "compiler/keyed/operator.py",
        "        table.records[entry] = run.backup[0]\n",
        "",
        "unit/test_compiler_keyed.py",
    ),
    Mutation(
        "undo: what a call changed in containers, the last change first",
        "compiler/runtime/undo.py",
        "for k in range(get_i(log + 8) - 1, -1, -1):",
        "for k in range(get_i(log + 8)):",
        "unit/test_compiler_containers.py",
    ),
    Mutation(
        "undo: every word of what is changed is noted",
        "compiler/runtime/undo.py",
        "for k in range(0, size, 8):",
        "for k in range(0, size - 8, 8):",
        "unit/test_compiler_containers.py",
    ),
    Mutation(
        "undo: of an interpreted call, lists included",
        "engine/keyed_rows.py",
        "            states[key] = spec.restore(saved)\n        if key not in states",
        "            pass\n        if key not in states",
        "unit/test_interpreted.py",
    ),
    Mutation(
        "undo: a long list is made again from its key's rows",
        "engine/keyed_rows.py",
        "        for place in log.places:",
        "        for place in log.places[1:]:",
        "unit/test_interpreted.py",
    ),
    Mutation(
        "texts: the shorter of two that begin alike is less",
        "compiler/runtime/text.py",
        "sign = a[1] - b[1]",
        "sign = b[1] - a[1]",
        "unit/test_compiler_text.py",
    ),
    Mutation(
        "texts: None equals None only",
        "compiler/runtime/text.py",
        "return boxed[0] and text_equal(boxed[1], text)",
        "return text_equal(boxed[1], text)",
        "unit/test_compiler_text.py",
    ),
    Mutation(
        "tables of dicts, captured ones too: a cell of the index may be another key's",
        "compiler/runtime/dicts.py",
        "        if get_i(entry) != 0 and _same(entry + 8, wanted, key):\n            return entry\n        cell",
        "        if get_i(entry) != 0:\n            return entry\n        cell",
        "unit/test_compiler_containers.py",
    ),
    Mutation(
        "joins: rows at most that far apart",
        "engine/joins/matching.py",
        "before = time - reach if",
        "before = time - reach + 1 if",
        "unit/test_driver_loops.py",
    ),
    Mutation(
        "joins: a null matches nothing",
        "engine/joins/held_sides.py",
        "            has &= column.valid\n",
        "            has |= column.valid\n",
        "unit/test_driver_loops.py unit/test_barrier_of_series.py",
    ),
    Mutation(
        "joins: a file learns that a key has no rows any more",
        "engine/joins/table.py",
        "gone = self._form.tombstones(self._gone(found))",
        "gone = self._form.tombstones(self._gone(found)[:0])",
        "unit/test_column_join.py",
    ),
    Mutation(
        "hybrid queue: a partition has one owner",
        "workers/lockfree/hybrid_queue.py",
        "add(mem, _area(mem, at, p) + _COUNT, 1) != 0:",
        "add(mem, _area(mem, at, p) + _COUNT, 1) > 1:",
        "unit/test_hybrid_queue.py",
    ),
    Mutation(
        "hybrid queue: resumed partitions come first",
        "workers/lockfree/hybrid_queue.py",
        "    mpmc_push(mem, _end(mem, at), p)\n\n",
        "    mpmc_push(mem, _master(mem, at), p)\n\n",
        "unit/test_hybrid_queue.py",
    ),
    Mutation(
        "reading ahead: chunks in the order of the feed",
        "connectors/handover.py",
        "self._items.popleft()",
        "self._items.pop()",
        "unit/test_read_ahead.py unit/test_io_handover.py",
    ),
    Mutation(
        "reading ahead: an error behind the chunks before it",
        "embedded/read_ahead.py",
        "    except BaseException as error:\n        handover.fail(error)",
        "    except BaseException:\n        pass",
        "unit/test_read_ahead.py",
    ),
    Mutation(
        "adaptive: what ran alone is counted once",
        "workers/adaptive.py",
        "rows_in - before[0] + more[0]",
        "rows_in + more[0]",
        "property/test_adaptive.py",
    ),
    Mutation(
        "adaptive: compiled state is one, whoever runs",
        "workers/adaptive.py",
        "            self._sync_tables()\n",
        "",
        "property/test_adaptive.py",
    ),
    Mutation(
        "fitting: rows of another length do not fit",
        "connectors/fitting.py",
        "or set(map(len, rows)) != {len(keys)}:",
        "or False:",
        "unit/test_io_sources.py",
    ),
    Mutation(
        "fitting: a time too far out is a bad row",
        "connectors/fitting.py",
        "if field.name == source.order_by and not _in_time(made):",
        "if False:",
        "unit/test_io_sources.py",
    ),
    Mutation(
        "fitting: a lane that is not declared is a bad row",
        "connectors/fitting.py",
        "if isinstance(declared, tuple) and not set(values) <= set(declared):",
        "if False:",
        "unit/test_io_sources.py",
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
        "connectors/written/file_sink.py",
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
        'f"    if row.{payload} != state.content_:"',
        'f"    if row.{payload} == state.content_:"',
        "unit/test_windows.py",
    ),
    Mutation(
        "aggregates: an early result is of a new stretch of time",
        "flow/operators/windows.py",
        'test = "stretch > state.early"',
        'test = "stretch >= state.early"',
        "unit/test_aggregates.py",
    ),
    Mutation(
        "aggregates: merged variances know how far their means are apart",
        "flow/operators/aggregates/numeric.py",
        'f"    {mid} += {step} * ({more} / ({n} + {more}))"',
        'f"    {mid} += {step} * ({n} / ({n} + {more}))"',
        "unit/test_aggregates.py",
    ),
    Mutation(
        "aggregates: parts leave out rows that where= does not let through",
        "engine/combine.py",
        "_valid(column) if counts is None else _valid(column) & counts",
        "_valid(column)",
        "unit/test_aggregates.py",
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
    Mutation(
        "haren: FCFS ranks by the oldest on its way",
        "scheduling/round_view.py",
        "age = max(ages[feeder] for feeder in feeders)",
        "age = min(ages[feeder] for feeder in feeders)",
        "unit/test_scheduling_haren.py",
    ),
    Mutation(
        "haren: HR divides by the time of all behind",
        "scheduling/haren.py",
        "taking[i] = operator.cost_ns + operator.selectivity * behind",
        "taking[i] = operator.cost_ns + behind",
        "unit/test_scheduling_haren.py",
    ),
    Mutation(
        "haren: Chain merges as steep a segment",
        "scheduling/haren.py",
        "while segments and segments[-1][0] <= slope:",
        "while segments and segments[-1][0] < slope - 1:",
        "unit/test_scheduling_haren.py",
    ),
    Mutation(
        "haren: class 0 is the most urgent",
        "scheduling/haren.py",
        "vectors[i] = (-float(number), *inner[place[i]])",
        "vectors[i] = (float(number), *inner[place[i]])",
        "unit/test_scheduling_haren.py",
    ),
    Mutation(
        "haren: equal priorities have one level",
        "scheduling/rounds.py",
        "highest += at > 0 and vectors[operator] != vectors[order[at - 1]]",
        "highest += at > 0",
        "unit/test_scheduling_rounds.py",
    ),
    Mutation(
        "haren: the highest priority is first",
        "scheduling/rounds.py",
        "order = sorted(range(len(vectors)), key=vectors.__getitem__, reverse=True)",
        "order = sorted(range(len(vectors)), key=vectors.__getitem__)",
        "unit/test_scheduling_rounds.py",
    ),
    Mutation(
        "haren: the aging rule takes the longest",
        "scheduling/rounds.py",
        "waiting_since_ns[operator] < since\n",
        "waiting_since_ns[operator] > since\n",
        "unit/test_scheduling_rounds.py unit/test_round_barrier.py",
    ),
    Mutation(
        "haren: what neighbours changed is read anew",
        "scheduling/features.py",
        "FeatureKind.DEPENDENT: around,",
        "FeatureKind.DEPENDENT: touched,",
        "unit/test_scheduling_features.py",
    ),
    Mutation(
        "haren: a busy operator has several threads",
        "scheduling/placement.py",
        "min(free, most, 1 if own <= one else math.ceil(threads * own / total - 1e-9))",
        "min(free, most, 1)",
        "unit/test_scheduling_rounds.py",
    ),
    Mutation(
        "haren: the heaviest operator is placed first",
        "scheduling/placement.py",
        "key=weight.__getitem__, reverse=True",
        "key=weight.__getitem__",
        "unit/test_scheduling_rounds.py",
    ),
    Mutation(
        "haren: the walk goes on to equals only",
        "workers/rounds/round_barrier.py",
        "if mem[entry + E_LEVEL] != level:\n                break",
        "if mem[entry + E_LEVEL] < level:\n                break",
        "unit/test_next_operator.py",
    ),
    Mutation(
        "haren: who has old measures runs once",
        "workers/rounds/round_barrier.py",
        "if mem[entry + E_SINCE] == ONCE:\n            mem[entry + E_SINCE] = EMPTY",
        "if mem[entry + E_SINCE] == ONCE:\n            mem[entry + E_SINCE] = ONCE",
        "unit/test_next_operator.py",
    ),
    Mutation(
        "haren: a source lets in what it offers",
        "workers/runnable.py",
        "if mem[o + KIND] == INGRESS:\n        return may_enter(mem, op)",
        "if mem[o + KIND] == INGRESS:\n        return False",
        "unit/test_next_operator.py",
    ),
    Mutation(
        "schneider & wu: who cannot run goes to the end of the free list",
        "workers/next_operator.py",
        "        if op == first:\n            return EMPTY\n        if first == EMPTY:\n            first = op",
        "        return EMPTY",
        "unit/test_next_operator.py",
    ),
    Mutation(
        "schneider & wu: self-help takes a quarter",
        "workers/loop.py",
        "max(mem[o + CAPACITY] // 4, 1) if helping",
        "max(mem[o + CAPACITY], 1) if helping",
        "unit/test_next_operator.py",
    ),
    Mutation(
        "prasaad: the one furthest behind is picked",
        "scheduling/simple.py",
        "view.last_run_ns[i] < view.last_run_ns[oldest]",
        "view.last_run_ns[i] > view.last_run_ns[oldest]",
        "unit/test_scheduling.py",
    ),
    Mutation(
        "prasaad: cost from too few tuples does not count",
        "scheduling/measures.py",
        "    if tuples < SAMPLE_TUPLES:\n        return PRIOR_COST_NS",
        "    if tuples < 1:\n        return PRIOR_COST_NS",
        "unit/test_scheduling_measures.py",
    ),
    Mutation(
        "tags: who has others is not fused",
        "plan/plan.py",
        "        fits = fits and plan.tags_of(before.index) == plan.tags_of(node.index)\n",
        "",
        "unit/test_tags.py",
    ),
    Mutation(
        "tags: inner ones overrule",
        "flow/tags.py",
        "{**tags, **self._tagged.get(index, {})}",
        "{**self._tagged.get(index, {}), **tags}",
        "unit/test_tags.py",
    ),
]
