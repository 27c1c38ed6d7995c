"""The weights that the programs of a dump are compared on."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_source import TensorsByKey, TensorSource
from ascendfx.passes.random_weights import checkpoint_types, random_weights
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.dumps.read_dump import Dump
from ascendfx.runtime.limits import DTYPES


def weights_for(
    dump: Dump,
    programs: Sequence[Program],
    *,
    checkpoint: Path | None = None,
    seed: int | None = None,
) -> Mapping[str, Array]:
    """Return the checkpoint that a dump names, another one, or random numbers.

    Args:
        dump: The dump.
        programs: What the weights must fit, the main model first.
        checkpoint: A directory to use instead of the recorded one.
        seed: Of random numbers to use instead of any directory.

    Raises:
        GraphError: There is no directory, or it is another model's.
    """
    if seed is not None:
        of_each = [random_weights(program, seed + i) for i, program in enumerate(programs)]
        return dict(ChainMap(*of_each))
    directory = checkpoint or (Path(dump.header.source) if dump.header.source else None)
    if directory is None:
        raise GraphError(
            code="no-weights",
            reason="the dump is of a module, so it names no checkpoint",
            hint="pass --checkpoint DIR, or --random SEED for random weights",
        )
    dtype = DTYPES.get(dump.header.dtype or "")
    try:
        source = capture_model(
            directory, dtype=dtype, trace_folder=trace_folder_of(None), drafts=len(programs) > 1
        ).source
    except GraphError as error:
        if error.code == "missing-package":
            error.hint = "pip install 'ascendfx[capture]', or `--random SEED` for random weights"
        raise
    for program in programs:
        check_weights(program, source, str(directory))
    return TensorsByKey(source)


def check_weights(program: Program, source: TensorSource, name: str) -> None:
    """Check that a source has every tensor a program reads, in its shape.

    Raises:
        GraphError: A tensor is missing or has another shape.
    """
    for key, kind in checkpoint_types(program).items():
        wanted = tuple(bind_size(size, {}) for size in kind.shape)
        found = source.shape(key) if key in source.keys() else None  # noqa: SIM118  # no mapping
        if found != wanted:
            raise GraphError(
                code="other-checkpoint",
                reason=f"{name} has {f'`{key}` {list(found)}' if found else f'no `{key}`'}, "
                f"the dump needs {list(wanted)}",
                hint="pass the directory of the model that was compiled: --checkpoint DIR; a draft "
                "layer that was given as a module is in none: --random SEED",
            )
