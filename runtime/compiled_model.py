"""Everything that compiling a model produces, before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.passes.verification.verify_pass import PassCheck
from ascendfx.runtime.checkpoint.file_stamp import FileStamp
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.search_summary import SearchSummary


@dataclass(frozen=True)
class CompiledModel:
    """Plans and kernels for one target.

    Attributes:
        target: The chip.
        config: What the engine must know of the model.
        programs: Serving program of each plan, by the plan's name.
        steps: The same as steps that need no host, which are what plans launch.
        plans: ``decode`` and ``prefill``.
        weights: How each weight of the plans is made from the checkpoint.
        source: The checkpoint; read tensor by tensor.
        tokenizer: Path of ``tokenizer.json``, if the model has one.
        tokenizer_stamp: Which file that was; None: it is taken as it is found.
        remarks: What capture left out or could not do as well as usual, and a limit beyond that of
            the model. Remarks of passes are in the dumps.
        checks: What verification said of each pass, in order; empty if nothing was verified.
        searches: What each search gained, in order; empty with a fixed order of rules.
    """

    target: Target
    config: ServingConfig
    programs: Mapping[str, Program]
    steps: Mapping[str, Program]
    plans: Mapping[str, LaunchPlan]
    weights: tuple[WeightSpec, ...]
    source: TensorSource
    tokenizer: Path | None
    remarks: tuple[str, ...] = ()
    checks: tuple[PassCheck, ...] = ()
    tokenizer_stamp: FileStamp | None = None
    searches: tuple[SearchSummary, ...] = ()
