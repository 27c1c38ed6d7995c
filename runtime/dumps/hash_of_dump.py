"""Which model a dump is of, as packages and engines know it."""

from ascendfx.ir.step_names import PLANS
from ascendfx.runtime.dumps.read_dump import Dump
from ascendfx.runtime.model_hash import programs_hash


def hash_of_dump(dump: Dump) -> str:
    """Return the hash of the programs that the compilation ended with; empty if it did not end.

    Raises:
        GraphError: A program of the dump cannot be read.
    """
    if dump.unfinished:
        return ""
    stages = [stage for stage in dump.stages if stage.name in PLANS]
    return programs_hash({stage.name: stage.program(len(stage.passes)) for stage in stages})
