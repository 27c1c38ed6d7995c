"""The chain from a model to plans: capture, rewrite, lower."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.capture_checkpoint import capture
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from ascendfx.runtime.progress import Progress, silent

_DTYPES = {"float32": DType.F32, "bfloat16": DType.BF16}
_BLOCK_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes the plans are made for.

    Attributes:
        max_batch: Requests of a decode step.
        max_context: Tokens of a request, prompt and answer.
        prefill_chunk: Prompt tokens of a prefill step.
        cache_blocks: Blocks of 128 tokens in every cache; None: enough for a full batch.
    """

    max_batch: int = 16
    max_context: int = 1024
    prefill_chunk: int = 128
    cache_blocks: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_context", "prefill_chunk"):
            if getattr(self, name) < 1:
                raise GraphError(
                    "bad-limit", f"{name} must be at least 1, got {getattr(self, name)}"
                )

    @property
    def table_blocks(self) -> int:
        """Blocks of one request."""
        return -(-self.max_context // _BLOCK_TOKENS)

    @property
    def blocks(self) -> int:
        """Blocks of every cache."""
        return self.cache_blocks or self.max_batch * self.table_blocks


def compile_model(
    model: Any,
    target: str = "ascend910b",
    *,
    dtype: str | None = None,
    limits: Limits | None = None,
    dump_dir: Path | None = None,
    progress: Progress = silent,
) -> CompiledModel:
    """Return plans and kernels; nothing is built or run.

    Args:
        model: ``nn.Module``, or a Hugging Face directory.
        target: Name of the chip.
        dtype: ``"float32"`` or ``"bfloat16"``; None keeps the checkpoint's own.
        limits: Sizes the plans are made for.
        dump_dir: Receives the program after each pass, in ``serving``, ``decode`` and ``prefill``.
        progress: Told about each stage.

    Raises:
        GraphError: The model cannot be captured or lowered, or an option is wrong.
    """
    chip = find_target(target)
    limits = limits or Limits()
    if dtype is not None and dtype not in _DTYPES:
        raise GraphError(
            "unknown-dtype", f"no element format `{dtype}`", hint="use float32 or bfloat16"
        )
    stages = ("capture", "derive the serving form", "lower decode", "lower prefill")
    progress(stages[0], 0, 1)
    captured = capture(model, dtype=_DTYPES[dtype] if dtype else None)
    progress(stages[0], 1, 1)
    progress(stages[1], 0, 1)
    serving, _ = run_pipeline(captured.program, TO_SERVING, dump_dir=_folder(dump_dir, "serving"))
    progress(stages[1], 1, 1)
    programs, plans, weights = {}, {}, {}
    for stage, (name, passes) in zip(
        stages[2:], {"decode": DECODE, "prefill": PREFILL}.items(), strict=True
    ):
        progress(stage, 0, 1)
        program, _ = run_pipeline(serving, passes, dump_dir=_folder(dump_dir, name))
        decode = name == "decode"
        plan, specs = lower_program(
            program,
            target=chip,
            name=name,
            rows=limits.max_batch if decode else limits.prefill_chunk,
            requests=limits.max_batch if decode else 1,
            context=limits.max_context,
            blocks=limits.blocks,
        )
        programs[name], plans[name] = program, plan
        weights.update({spec.name: spec for spec in specs})
        progress(stage, 1, 1)
    return CompiledModel(
        target=chip,
        config=ServingConfig(captured.vocabulary, frozenset(captured.end_tokens), _BLOCK_TOKENS),
        programs=programs,
        plans=plans,
        weights=tuple(weights.values()),
        source=captured.source,
        tokenizer=captured.tokenizer,
    )


def _folder(dump_dir: Path | None, name: str) -> Path | None:
    return dump_dir / name if dump_dir else None
