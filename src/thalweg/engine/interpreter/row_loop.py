"""The loop of an interpreted keyed operator over the rows of a chunk, as code made for its state class.

It costs little more than the user's function: a field that the call did not change is known by being the same object,
and one that it changed is checked by its type at once. What it was is kept in a local variable until the call has
returned, so a call that raises leaves no trace. Whatever is not plain is left to the methods of its caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.flow.fields.field_types import FieldType, encodes
from thalweg.flow.fields.fit_code import fits, is_plain
from thalweg.flow.operators.nodes import Keyed
from thalweg.flow.state_class import StateSpec
from thalweg.times import NEVER

#: The loop: its arguments are rows, keys, the parts of the key's table (``ObjectTable.parts``), times, answers (filled
#: by place), and the caller. It gives whether all rows ran.
Loop = Callable[[Any, Any, Any, Any, list[Any], Any], bool]


def is_held(kind: FieldType) -> bool:
    """Whether a value can be changed in place, so that it is held on to in another way than by itself."""
    return not is_plain(kind) and (kind.record is None or not kind.record.stays)


def held_fields(spec: StateSpec) -> tuple[int, ...]:
    """The places of the fields whose values can be changed in place."""
    return tuple(i for i, field in enumerate(spec.schema.fields) if is_held(field.type))


def make_loop(node: Keyed) -> Loop:
    """The loop for an operator."""
    scope: dict[str, Any] = {
        "CALL": node.process.call,
        "NEW": node.state.maker,
        "FIT": None if node.record is None else node.record.fit,
        "NEVER": NEVER,
        "encodes": encodes,
    }
    for i, field in enumerate(node.state.schema.fields):
        if field.type.record is not None:
            scope[f"FIT{i}"] = field.type.record.fit
    if node.collects is not None:
        scope["SPAN"] = node.collects.span
    body = _body(node) if node.collects is None else _collecting()
    text = "\n".join(["def loop(rows, keys, parts, times, answers, own):", *body])
    exec(compile(text, f"{__file__}<loop>", "exec"), scope)
    made: Loop = scope["loop"]
    return made


def _collecting() -> list[str]:
    """The loop of an operator that collects rows: they come without their last field, which ``own.lasts`` has."""
    return [
        "    for row, key, (states, dirty, stirred), now, last in zip(rows, keys, parts, times, own.lasts):",
        "        old = state = states.get(key)",
        *_fire("timer"),
        "        if state is None:",
        "            state = states[key] = NEW()",
        "        dirty[key] = None",
        "        if not state.rows_:",
        "            state.first_ = last",
        "        state.last_ = last",
        "        last += SPAN",
        "        if last < now:",
        "            last = now",
        "        if state.timer != last:",
        "            state.timer = last",
        "            stirred[key] = None",
        "        state.rows_.append(row)",
        "    return True",
    ]


def _body(node: Keyed) -> list[str]:
    fields, reject = node.state.schema.fields, node.errors == "reject"
    held = held_fields(node.state)
    timer = node.state.timer if node.on_timer is not None else None
    saved = "".join(f"f{i}, " for i in range(len(fields)))
    checked = [(i, field) for i, field in enumerate(fields) if i not in held]
    return [
        "    append = answers.append",
        *(["    logs = own.logs"] if held else []),
        "    for row, key, (states, dirty, stirred), now in zip(rows, keys, parts, times):",
        "        old = state = states.get(key)",
        *(_fire(timer) if timer else []),
        "        if state is None:",
        "            state = states[key] = NEW()",
        "        dirty[key] = None",
        *(_log() if held else []),
        *(f"        f{i} = {_kept(i, f.name, held, reject=reject)}" for i, f in enumerate(fields)),
        "        answer = None",
        "        try:",
        *_call(node),
        *(line for i, field in checked for line in _check(i, field.name, field.type)),
        "        except Exception as error:",
        f"            answer = own.failed(len(answers), states, key, old, ({saved}), answer, error)",
        *_after_failure(reject=reject),
        *(["        log.places.append(len(answers))"] if held else []),
        "        append(answer)",
        "        if state._drop:",
        "            own.drop(states, key)",
        *(_arm(timer, fields.index(node.state.schema.field(timer))) if timer else []),
        "    return True",
    ]


def _fire(timer: str) -> list[str]:
    """Timers that are due before the row."""
    return [
        f"        if old is not None and old.{timer} < now:",
        "            old = state = own.fire_before(states, key, now)",
    ]


def _log() -> list[str]:
    """Where the state can be changed in place: what it was, and the rows since."""
    return [
        "        log = logs.get(key)",
        "        if log is None:",
        "            log = logs[key] = own.log(states, old)",
    ]


def _kept(place: int, name: str, held: tuple[int, ...], *, reject: bool) -> str:
    """What a field was before the call; where it can be changed in place a copy, if a short one will do."""
    if place not in held:
        return f"state.{name}"
    return f"own.copied({place}, state.{name})" if reject else "None"


def _call(node: Keyed) -> list[str]:
    if node.record is None:
        return ["            CALL(state, row)"]
    if node.many:
        lines = ["            answer = list(CALL(state, row) or ())"]
        if at_once(node):
            lines += [
                "            given, answer = answer, None",
                "            answer = [FIT(one) for one in given if one is not None]",
            ]
        return lines
    if not at_once(node):
        return ["            answer = CALL(state, row)"]
    return [
        "            given = CALL(state, row)",
        "            if given is not None:",
        "                answer = FIT(given)",
    ]


def at_once(node: Keyed) -> bool:
    """Whether outputs are checked at their row: where it can be rejected, or they can be changed later."""
    return node.errors == "reject" or node.record is None or not node.record.stays


def _check(place: int, name: str, kind: FieldType) -> list[str]:
    """The check of a field that the call may have given another value."""
    unless = f" and not {fits(kind, 'v')}" if is_plain(kind) else ""
    return [
        f"            v = state.{name}",
        f"            if v is not f{place}{unless}:",
        f"                own.unusual({place}, v)",
    ]


def _after_failure(*, reject: bool) -> list[str]:
    if not reject:
        return ["            return False"]
    return ["            append(answer)", "            continue"]


def _arm(timer: str, place: int) -> list[str]:
    """The timer as the table knows it: never before the row, and told where it is another one."""
    return [
        "            continue",
        f"        v = state.{timer}",
        "        if type(v) is not int or v < now:",
        f"            v = state.{timer} = max(NEVER if v is None else int(v), now)",
        f"        if v is not f{place}:",
        "            stirred[key] = None",
    ]
