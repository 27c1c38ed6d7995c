"""What a dump says by itself, before anything is computed again."""

from ascendfx.runtime.dumps.read_dump import Dump


def recorded_verdict(dump: Dump) -> str:
    """Return what the compilation that wrote the dump found, in one line.

    Raises:
        GraphError: The dump is damaged.
    """
    entries = [(stage, each) for stage in dump.stages for each in stage.passes]
    for stage, each in entries:
        if each.broken:
            return f"pass `{each.name}` of stage {stage.name} broke its fidelity: {each.broken}"
    measured = sum(each.measured for _, each in entries)
    if not measured:
        return "nothing was compared while compiling"
    which = "all" if measured == len(entries) else f"{measured} of"
    return f"{which} {len(entries)} passes were compared while compiling, none broke its fidelity"
