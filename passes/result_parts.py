"""What a pass counts and remarks, checked: those of users are not tested."""

from collections.abc import Mapping
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.remark import Remark


def check_parts(name: str, statistics: Any, remarks: Any) -> None:
    """Check what a result has beside the program.

    Args:
        name: Of the pass.
        statistics: Counts by name.
        remarks: A sequence of `Remark`.

    Raises:
        GraphError: They are something else.
    """
    if not _are_counts(statistics):
        raise GraphError(
            "pass-result",
            f"pass `{name}` gave the statistics {statistics!r:.80}, which are no counts",
            hint='give whole numbers by name, such as {"products merged": 2}',
        )
    for each in remarks if isinstance(remarks, list | tuple) else (remarks,):
        if not isinstance(each, Remark):
            raise GraphError(
                "pass-result",
                f"pass `{name}` gave the remark {each!r:.80}, which is no Remark",
                hint="give a tuple of Remark(text, node.location), of ascendfx.passes.remark",
            )


def _are_counts(statistics: Any) -> bool:
    return isinstance(statistics, Mapping) and all(
        isinstance(what, str) and isinstance(count, int) for what, count in statistics.items()
    )
