"""Query 4 as a plain Python loop: one row at a time, sessions closed in order of their time; needs time order."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from common import GAP_US, Answer, record_batches, run


def query(folder: Path) -> Answer:
    sessions = abandoned = 0
    average = 0.0
    # The gap is the same for all, so sessions close in the order of their last click.
    opened: OrderedDict[int, list] = OrderedDict()

    def close(session: list) -> None:
        nonlocal sessions, abandoned, average
        sessions += 1
        if session[2] and not session[3]:
            abandoned += 1
            average += (session[1] - average) / abandoned

    for batch in record_batches(folder, "ts", "user", "action"):
        columns = (
            batch["ts"].cast("int64").to_pylist(),
            batch["user"].to_pylist(),
            batch["action"].to_pylist(),
        )
        for ts, user, action in zip(*columns, strict=True):
            while opened:
                oldest = next(iter(opened))
                if ts - opened[oldest][0] <= GAP_US:
                    break
                close(opened.pop(oldest))
            session = opened.get(user)
            if session is None:
                session = opened[user] = [ts, 0, False, False]
            else:
                opened.move_to_end(user)
                session[0] = ts
            session[1] += 1
            if action == "cart":
                session[2] = True
            elif action == "checkout":
                session[3] = True
    for session in opened.values():
        close(session)
    return Answer(sessions, abandoned, average if abandoned else None)


if __name__ == "__main__":
    run(query)
