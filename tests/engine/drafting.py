"""An engine with drafts that are right so often, and requests for it."""

from itertools import islice

from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import expected


def engine(right: float, drafts: int = 3, places: int = 4) -> Engine:
    device = FakeExecutor(
        places=places, drafts=drafts, blocks=200, table_blocks=50, right=right, chunk=16
    )
    return served_by(device)


def serve(served: Engine, count: int = 8, limit: int = 60, drafts: int | None = None) -> None:
    """Run prompts whose texts do not break."""
    requests = [
        Request(prompt=[i % 12, i % 11], max_new_tokens=limit, draft_tokens=drafts)
        for i in range(count)
    ]
    served.start(requests)
    while served.busy:
        served.step(4)


def unbroken(count: int, limit: int = 60) -> list[Request]:
    """Return requests that end at their limit."""
    pairs = ([i, j] for i in range(30) for j in range(30))
    requests = (Request(prompt=pair, max_new_tokens=limit) for pair in pairs)
    return list(islice((each for each in requests if expected(each)[1] == "length"), count))
