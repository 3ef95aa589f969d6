"""Query 4 as a Thalweg flow: every click of a user in order, sessions closed by a timer, a running average."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw


class Click(NamedTuple):
    ts: tw.Timestamp
    user: int
    item: int
    action: tw.Category


class Session(NamedTuple):
    user: int
    pages: int
    carted: bool
    bought: bool


class Average(NamedTuple):
    sessions: int
    pages: float


@tw.state
class Open:
    timer: tw.Timer
    pages: int = 0
    carted: bool = False
    bought: bool = False


@tw.state
class Mean:
    sessions: int = 0
    pages: int = 0


def track(open: Open, click: Click) -> None:
    open.pages += 1
    open.carted |= click.action == "cart"
    open.bought |= click.action == "checkout"
    open.timer = click.ts + tw.minutes(60)


def close(open: Open, user: int, time: tw.Timestamp) -> Session:
    return Session(user, open.pages, open.carted, open.bought)


def average(mean: Mean, session: Session) -> Average:
    mean.sessions += 1
    mean.pages += session.pages
    return Average(mean.sessions, mean.pages / mean.sessions)


def make_flow() -> tw.Flow:
    """Clicks to the running average of the pages of abandoned sessions."""
    flow = tw.Flow("cart_abandonment")
    clicks = flow.source("clicks", Click, order_by="ts")
    sessions = clicks.key_by("user").process(track, state=Open, on_timer=close)
    sessions.sink("sessions")
    abandoned = sessions.filter(lambda s: s.carted and not s.bought, name="abandoned")
    abandoned.process(average, state=Mean).sink("average")
    return flow
