"""Which passes of a dump cannot be run again here: known before anything is compared."""

from collections.abc import Iterator

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.describe_pass import PassForm, restore_pass
from ascendfx.runtime.dumps.read_dump import Dump


def lost_passes(dump: Dump, *, allow_code: bool) -> Iterator[tuple[str, GraphError]]:
    """Yield the name of each pass that cannot be imported here, or may not be, once, and why."""
    seen: list[PassForm] = []
    for stage in dump.stages:
        for entry in stage.passes:
            if entry.form in seen:
                continue
            seen.append(entry.form)
            try:
                restore_pass(entry.form, allow_code=allow_code)
            except GraphError as error:
                yield entry.name, error
