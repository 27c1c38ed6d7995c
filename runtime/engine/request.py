"""A request and what became of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import NamedTuple

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STOP_COLUMNS
from ascendfx.runtime.arguments import check_flag, wrong_type
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.engine.metrics import Acceptance
from ascendfx.runtime.engine.sampling import Sampling

Prompt = str | Sequence[int]
"""Text, or token ids."""
TokenProgress = Callable[[int, int], None]
"""``progress(tokens so far, largest possible number)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What `Engine.start` takes.

    Attributes:
        prompt: Text, or token ids; not empty.
        max_new_tokens: Most new tokens, at least 1.
        min_new_tokens: No stop token is taken before so many.
        stop_at_eos: End at an end token of the model.
        stop_ids: Further ids that end the request; like end tokens they are not part of the result.
        sampling: How tokens are chosen; greedy by default.
        draft_tokens: Draft tokens per step, at most the plan's; None: what the engine's
            ``draft_policy`` says, or all.
    """

    prompt: Prompt
    max_new_tokens: int = 64
    min_new_tokens: int = 0
    stop_at_eos: bool = True
    stop_ids: Sequence[int] = ()
    sampling: Sampling = Sampling()  # noqa: RUF009  # frozen
    draft_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_new_tokens", 1), ("min_new_tokens", 0), ("draft_tokens", 0)):
            value = getattr(self, name)
            if value is not None or name != "draft_tokens":
                object.__setattr__(self, name, checked_limit(name, value, least=least))
        check_flag("stop_at_eos", self.stop_at_eos)
        if not isinstance(self.sampling, Sampling):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("sampling", self.sampling, "a `Sampling`")
        object.__setattr__(self, "stop_ids", _stop_ids(self.stop_ids))


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


class Update(NamedTuple):
    """What is new of a request since the last `Engine.poll`.

    Attributes:
        request: Its id.
        token_ids: New ids, in order; each is delivered once.
        finish_reason: Empty while it runs; ``"stop"``, ``"length"``, ``"cancelled"`` or
            ``"error"`` in its last update.
        error: The error behind ``"error"``.
        acceptance: Of the whole request; in its last update.
    """

    request: int
    token_ids: tuple[int, ...]
    finish_reason: str = ""
    error: GraphError | None = None
    acceptance: Acceptance | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What `Engine.stream` yields.

    Attributes:
        prompt: Place of the prompt in the caller's list.
        text: New text; empty without a tokenizer, or while a character is incomplete.
        token_ids: New ids.
        finish_reason: As of `Update`.
    """

    prompt: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str


def requests_for(prompts: object, sampling: object, **common: object) -> list[Request]:
    """Return a request for each prompt.

    Raises:
        GraphError: The prompts or the samplings are no lists that fit.
    """
    if isinstance(prompts, str):
        raise GraphError(
            "bad-prompt", "prompts is one string", hint="pass a list: generate([prompt])"
        )
    if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):
        raise wrong_type("prompts", prompts, "a list of texts or of token ids")
    given = list(prompts)
    wanted = "a `Sampling`, or a list with one for each prompt"
    if sampling is None or isinstance(sampling, Sampling):
        chosen = [sampling or Sampling()] * len(given)
    elif isinstance(sampling, list | tuple) and all(isinstance(s, Sampling) for s in sampling):
        chosen = list(sampling)
    else:
        raise wrong_type("sampling", sampling, wanted)
    if len(chosen) != len(given):
        raise GraphError(
            "bad-sampling",
            f"sampling has {len(chosen)} elements for {len(given)} prompts",
            hint=f"pass {wanted}",
        )
    pairs = zip(given, chosen, strict=True)
    return [Request(prompt=p, sampling=s, **common) for p, s in pairs]  # pyright: ignore[reportArgumentType]


def prompt_ids(number: int, prompt: object) -> tuple[int, ...]:
    """Return the ids of a prompt; integers of NumPy and tensors of one element will do.

    Raises:
        GraphError: It is no sequence of whole numbers.
    """
    if isinstance(prompt, bytes | bytearray | Mapping | Set):
        raise _no_prompt(number, f"`{type(prompt).__name__}` holds no ids in order")
    try:
        return tuple(map(_token_id, prompt))  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise _no_prompt(number, str(error)) from error


def _token_id(given: object) -> int:
    """Return a number as an id; of a truth value Python would make 0 or 1."""
    if type(given) is int:
        return given
    if isinstance(given, bool) or _is_truth(getattr(given, "dtype", None)):
        raise TypeError(f"{given!r} is a truth value, not a token id")
    return index(given)  # pyright: ignore[reportArgumentType]


@cache
def _is_truth(dtype: object) -> bool:
    """Return whether an element format, of NumPy or of PyTorch, is that of truth values."""
    return str(dtype) in ("bool", "torch.bool")


def _no_prompt(number: int, why: str) -> GraphError:
    return GraphError(
        "bad-prompt",
        f"prompt {number} is neither text nor a list of token ids: {why}",
        hint="pass a list of prompts: generate([[1, 2, 3]])",
    )


def _stop_ids(given: object) -> tuple[int, ...]:
    wanted = "a list of token ids"
    if isinstance(given, str | bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise wrong_type("stop_ids", given, wanted)
    try:
        ids = tuple(dict.fromkeys(map(_token_id, given)))
    except TypeError as error:
        raise wrong_type("stop_ids", given, wanted) from error
    if not all(0 <= each < 2**31 for each in ids) or len(ids) > STOP_COLUMNS:
        raise GraphError(
            "bad-stop-ids",
            f"stop_ids holds {len(ids)} ids from {min(ids)} to {max(ids)}; "
            f"at most {STOP_COLUMNS} that are token ids",
            hint="a step on the device compares with so many; end others by `Engine.cancel`",
        )
    return ids
