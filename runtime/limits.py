"""What a caller chooses of a compilation: sizes and the element format."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.cache_block import blocks_for
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.ops.verify_tree import MOST_NODES
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.arguments import wrong_type
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.device_memory import check_addressable

MOST_DRAFTS = 8
"""Rows of a request are handled by one core, and its attention by one tile of queries."""

DTYPES = {"float32": DType.F32, "bfloat16": DType.BF16}
"""Element formats by the names that PyTorch gives them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes the plans are made for.

    Attributes:
        max_batch: Requests of a decode step. Each has a count of every token of the vocabulary in
            device memory, 4 bytes, for penalties.
        max_context: Tokens of a request, prompt and answer.
        prefill_chunk: Prompt tokens of a prefill step.
        cache_blocks: Blocks of 128 tokens in every cache; None: enough for a full batch.
        draft_tokens: Tokens that draft layers propose per request and decode step, 0 to 8.
        group_steps: Decode steps whose tokens the device keeps until the host reads them.
        draft_tree: Candidates at each depth of a `DraftTree`, which then has as many depths as
            ``draft_tokens``; empty: the drafts are a chain.
    """

    max_batch: int = 16
    max_context: int = 1024
    prefill_chunk: int = 128
    cache_blocks: int | None = None
    draft_tokens: int = 0
    group_steps: int = 8
    draft_tree: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_context", "prefill_chunk", "cache_blocks", "group_steps"):
            limit = getattr(self, name)
            if limit is not None or name != "cache_blocks":
                least = 2 if name == "max_context" else 1  # a prompt and an answer
                object.__setattr__(self, name, checked_limit(name, limit, least=least))
        drafts = checked_limit("draft_tokens", self.draft_tokens, least=0)
        object.__setattr__(self, "draft_tokens", drafts)
        if drafts > MOST_DRAFTS:
            raise GraphError(
                code="limit-too-large",
                reason=f"draft_tokens={drafts}, a step verifies at most {MOST_DRAFTS}",
                hint="one draft layer used again is seldom right beyond three tokens",
            )
        self._set_tree()
        check_addressable(
            max_context=self.context,
            max_batch=self.max_batch * (1 + self.drafts),
            prefill_chunk=self.prefill_chunk,
            blocks=self.blocks,
        )

    def _set_tree(self) -> None:
        """Check the tree; one with a candidate at each depth is a chain.

        Raises:
            GraphError: It is none, is too large, or has other depths than there are draft tokens.
        """
        given = cast("object", self.draft_tree)
        if isinstance(given, str | bytes | bytearray) or not isinstance(given, Sequence):
            raise wrong_type("draft_tree", given, "a sequence of candidates at each depth")
        numbers = cast("Sequence[object]", given)
        branches = tuple(checked_limit("draft_tree", each, least=1) for each in numbers)
        if not branches:
            object.__setattr__(self, "draft_tree", ())
            return
        nodes, shown = 1 + DraftTree(branches).drafts, ",".join(map(str, branches))
        if len(branches) > MOST_DRAFTS or nodes > MOST_NODES:
            raise GraphError(
                code="limit-too-large",
                reason=f"draft_tree={shown} has {nodes} rows and {len(branches)} depths; a step "
                f"verifies at most {MOST_NODES} rows of a request, {MOST_DRAFTS} depths",
                hint="the first candidates are right most often: use a smaller tree",
            )
        if self.draft_tokens not in (0, len(branches)):
            raise GraphError(
                code="bad-limit",
                reason=f"draft_tree={shown} has {len(branches)} depths, not "
                f"draft_tokens={self.draft_tokens}",
                hint="pass one of them",
            )
        object.__setattr__(self, "draft_tokens", len(branches))
        object.__setattr__(self, "draft_tree", branches if max(branches) > 1 else ())

    @property
    def drafts(self) -> int:
        """Draft tokens of a request in a step: all nodes of a tree but its root."""
        return sum(self.draft_tree) or self.draft_tokens

    def recorded(self) -> dict[str, Any]:
        """Return the limits as dumps and golden directories hold them, in the form of JSON."""
        limits: dict[str, Any] = asdict(self)
        tree = limits.pop("draft_tree")
        return {**limits, "draft_tree": list(tree)} if tree else limits

    @property
    def context(self) -> int:
        """Most positions of a request: drafts reach beyond its last token."""
        return self.max_context + self.drafts

    @property
    def table_blocks(self) -> int:
        """Blocks of one request."""
        return blocks_for(self.context)

    @property
    def blocks(self) -> int:
        """Blocks of every cache."""
        needed = self.max_batch * self.table_blocks
        return needed if self.cache_blocks is None else self.cache_blocks

    def step(self, plan: str) -> StepSizes:
        """Return the step that a plan is made for.

        Args:
            plan: ``decode``: the newest token of each request and its drafts; ``prefill``: a chunk
                of one request.
        """
        if plan == "prefill":
            return StepSizes(self.prefill_chunk, 1, self.context)
        return StepSizes(self.max_batch * (1 + self.drafts), self.max_batch, self.context)


DEFAULT_LIMITS = Limits()
"""Sizes if the caller names none."""
