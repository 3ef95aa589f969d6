"""Query 4 as a NumPy program for this one query: Arrow batches of 64 k rows, sessions closed in exact order.

The fastest that one core does in Python without a compiler, and the least reusable. Needs input in time order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from common import GAP_US, Answer, record_batches, run

#: The time of the last click of a user without an open session; far from overflow.
NO_SESSION = -(2**62)


class Sessions:
    """The open sessions, one row a user seen so far, and what the closed ones came to."""

    def __init__(self) -> None:
        self.users = np.empty(0, np.int64)
        self.last = np.empty(0, np.int64)
        self.pages = np.empty(0, np.int64)
        self.flags = np.empty(0, np.int8)
        self.closed = self.abandoned = self.abandoned_pages = 0
        #: the average after each abandoned session of the latest batch, in order of their closing
        self.averages = np.empty(0)

    def rows_of(self, users: np.ndarray) -> np.ndarray:
        """The rows of users, which come sorted and once each; new users get one."""
        where = np.searchsorted(self.users, users)
        known = where < len(self.users)
        known[known] = self.users[where[known]] == users[known]
        if not known.all():
            new, at = users[~known], where[~known]
            self.users = np.insert(self.users, at, new)
            self.last = np.insert(self.last, at, NO_SESSION)
            self.pages = np.insert(self.pages, at, 0)
            self.flags = np.insert(self.flags, at, 0)
            where = np.searchsorted(self.users, users)
        return where

    def add(self, ts: np.ndarray, user: np.ndarray, flag: np.ndarray) -> None:
        """A batch of clicks in time order; closes what is due by its end."""
        order = np.argsort(user, kind="stable")
        ts, user, flag = ts[order], user[order], flag[order]
        changes = np.empty(len(user), bool)
        changes[0] = True
        np.not_equal(user[1:], user[:-1], out=changes[1:])
        heads = np.flatnonzero(changes)
        rows = self.rows_of(user[heads])
        before = np.empty_like(ts)
        before[1:] = ts[:-1]
        before[heads] = self.last[rows]
        begins = ts - before > GAP_US
        # A part is what a batch holds of one session; it begins at a gap or at another user.
        starts = np.flatnonzero(begins | changes)
        pages = np.diff(starts, append=len(ts))
        flags = np.bitwise_or.reduceat(flag, starts)
        last = ts[starts + pages - 1]
        first_part, last_part = changes[starts], np.append(changes[starts[1:]], True)
        ended = begins[heads] & (self.pages[rows] > 0)
        done = [(self.last[rows][ended], self.pages[rows][ended], self.flags[rows][ended])]
        carries_on = np.where(begins[heads], 0, 1)
        pages[first_part] += self.pages[rows] * carries_on
        flags[first_part] |= self.flags[rows] * carries_on.astype(np.int8)
        done.append((last[~last_part], pages[~last_part], flags[~last_part]))
        self.last[rows], self.pages[rows] = last[last_part], pages[last_part]
        self.flags[rows] = flags[last_part]
        done.append(self.due(int(ts.max())))
        self.close(*(np.concatenate(columns) for columns in zip(*done, strict=True)))

    def due(self, now: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Takes the sessions out that have ended by now."""
        where = np.flatnonzero((self.last < now - GAP_US) & (self.pages > 0))
        taken = self.last[where], self.pages[where], self.flags[where]
        self.last[where], self.pages[where], self.flags[where] = NO_SESSION, 0, 0
        return taken

    def close(self, last: np.ndarray, pages: np.ndarray, flags: np.ndarray) -> None:
        """Counts closed sessions in the order in which they closed."""
        self.closed += len(last)
        left = flags == 1
        in_order = pages[left][np.argsort(last[left], kind="stable")]
        counts = self.abandoned + np.arange(1, len(in_order) + 1)
        self.averages = (self.abandoned_pages + np.cumsum(in_order)) / counts
        self.abandoned += len(in_order)
        self.abandoned_pages += int(in_order.sum())


def query(folder: Path) -> Answer:
    sessions = Sessions()
    for batch in record_batches(folder, "ts", "user", "action", read_dictionary=["action"]):
        action = batch["action"]
        bit = {"cart": 1, "checkout": 2}
        bits = np.array([bit.get(text, 0) for text in action.dictionary.to_pylist()], np.int8)
        ts = batch["ts"].cast(pa.int64()).to_numpy()
        sessions.add(ts, batch["user"].to_numpy(), bits[action.indices.to_numpy()])
    sessions.close(*sessions.due(2**62))
    abandoned = sessions.abandoned
    average = sessions.abandoned_pages / abandoned if abandoned else None
    return Answer(sessions.closed, abandoned, average)


if __name__ == "__main__":
    run(query)
