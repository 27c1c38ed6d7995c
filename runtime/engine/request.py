"""A request and what became of it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Generation:
    """The result of one request.

    Attributes:
        prompt_ids: Token ids of the prompt.
        token_ids: Generated ids, without the end token.
        text: The generated text; empty when the package has no tokenizer.
        finish_reason: ``"stop"`` for an end token, ``"length"`` for a limit.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str


@dataclass(slots=True)
class ActiveRequest:
    """A request while it runs; owned by the engine.

    Attributes:
        index: Place of the request in the caller's list.
        prompt: Token ids of the prompt.
        limit: Largest number of new tokens.
        minimum: Number of new tokens before which no end token is taken.
        blocks: Cache blocks in order.
        cached: Tokens whose entries are in the cache.
        generated: New token ids.
        finish_reason: Empty while it runs.
    """

    index: int
    prompt: tuple[int, ...]
    limit: int
    minimum: int = 0
    blocks: list[int] = field(default_factory=list[int])
    cached: int = 0
    generated: list[int] = field(default_factory=list[int])
    finish_reason: str = ""

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens that are known and not yet in the cache."""
        known = (*self.prompt, *self.generated)
        return known[self.cached :]
