"""Query 4 as a Thalweg flow: the functions of the example, with the sessions counted beside the average."""

from __future__ import annotations

import thalweg as tw
from thalweg.examples.cart_abandonment import (
    Click,
    Mean,
    Open,
    abandoned,
    close,
    running_mean,
    track,
)


def make_flow() -> tw.Flow:
    """Clicks to the running average of the pages of abandoned sessions."""
    flow = tw.Flow("cart_abandonment")
    clicks = flow.source("clicks", Click, order_by="ts")
    sessions = clicks.key_by("user").process(track, state=Open, on_timer=close)
    sessions.sink("sessions")
    sessions.filter(abandoned).process(running_mean, state=Mean).sink("average")
    return flow
