"""What a caller chooses of a compilation: sizes and the element format."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.cache_block import blocks_for
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.device_memory import check_addressable

DTYPES = {"float32": DType.F32, "bfloat16": DType.BF16}
"""Element formats by the names that PyTorch gives them."""


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
        for name in ("max_batch", "max_context", "prefill_chunk", "cache_blocks"):
            limit = getattr(self, name)
            if limit is not None or name != "cache_blocks":
                object.__setattr__(self, name, checked_limit(name, limit, least=1))
        check_addressable(
            max_context=self.max_context,
            max_batch=self.max_batch,
            prefill_chunk=self.prefill_chunk,
            blocks=self.blocks,
        )

    @property
    def table_blocks(self) -> int:
        """Blocks of one request."""
        return blocks_for(self.max_context)

    @property
    def blocks(self) -> int:
        """Blocks of every cache."""
        needed = self.max_batch * self.table_blocks
        return needed if self.cache_blocks is None else self.cache_blocks

    def step(self, plan: str) -> StepSizes:
        """Return the step that a plan is made for.

        Args:
            plan: ``decode``: a token of each request; ``prefill``: a chunk of one request.
        """
        if plan == "prefill":
            return StepSizes(self.prefill_chunk, 1, self.max_context)
        return StepSizes(self.max_batch, self.max_batch, self.max_context)


DEFAULT_LIMITS = Limits()
"""Sizes if the caller names none."""
