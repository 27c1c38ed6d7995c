"""What the engine must know about a model beside its plans."""

from dataclasses import dataclass

from ascendfx.ir.cache_block import BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Token ids and cache geometry.

    Attributes:
        vocabulary: Number of token ids.
        end_tokens: Ids that end a request.
        block_tokens: Tokens per cache block.
        model: What `model_hash` says of the model; empty: not yet known.
    """

    vocabulary: int
    end_tokens: frozenset[int]
    block_tokens: int = BLOCK_TOKENS
    model: str = ""
