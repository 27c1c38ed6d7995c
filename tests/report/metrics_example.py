"""Figures of drafts as a run writes them."""

from ascendfx.runtime.engine.metrics import Acceptance, Metrics
from tests.report.poisoned_page import NASTY

METRICS = Metrics(
    steps=1_500,
    request_steps=4_000,
    tokens=8_760,
    proposed=(4_000, 2_800),
    accepted=(2_800, 1_400),
    requests={7: Acceptance(10, 12, 20, 2, 1)},
    ended={3: Acceptance(5, 15, 10, 10), 12: Acceptance()},
    warnings=(NASTY,),
)
