"""Tasks of lm-evaluation-harness (``lm_eval``) on our models, with data that is here already."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import fsum
from typing import Any, Protocol

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.language_model import Ids
from ascendfx.runtime.evaluate.scorer import Scorer

_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_MOST = 256
"""Tokens of an answer, if a task does not say."""


class Codec(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        ...


class LM:
    """What the harness asks of a model; requests have their ``args``, as `lm_eval` makes them.

    A subclass of ``lm_eval.api.model.LM`` is made of it where the package is installed.
    """

    def __init__(self, scorer: Scorer, codec: Codec) -> None:
        self.scorer, self.codec = scorer, codec

    def loglikelihood(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
        """Return, of pairs of context and continuation, log p, and whether it is the likeliest.

        An empty context is an end token, if the model has one.
        """
        found: list[tuple[float, bool]] = []
        for request in requests:
            context, continuation = request.args
            text = context.rstrip()  # space belongs to what comes behind it
            before = self.codec.encode(text) or self._begin()
            whole = self.codec.encode(context + continuation)
            if not text:
                whole = [*before, *whole]
            common = zip(before, whole, strict=False)
            start = next((i for i, (a, b) in enumerate(common) if a != b), len(before))
            (scores,) = self.scorer.score([self._last(whole)])
            start = max(start - (len(whole) - len(scores.own.best)), 1)
            likeliest = scores.own.best[start - 1 : -1]
            told = scores.own.told[start - 1 :]
            found.append((fsum(told), bool((likeliest == self._last(whole)[start:]).all())))
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any], **_: Any) -> list[float]:
        """Return log p of whole texts, in windows; each token is told once."""
        return [fsum(self._rolling(request.args[0])) for request in requests]

    def generate_until(self, requests: Sequence[Any], **_: Any) -> list[str]:
        """Return the likeliest continuations, up to a text that ends them."""
        return [self._generated(*request.args) for request in requests]

    def _rolling(self, text: str) -> list[float]:
        """Return log p of windows: of the last one the end, which has as much before it as fits."""
        ids = (*self._begin(), *self.codec.encode(text))
        most = self.scorer.models[0].card.max_tokens
        windows: list[Ids] = []
        counts: list[int] = []
        for first in range(0, len(ids) - 1, most - 1):
            end = min(first + most, len(ids))
            windows.append(ids[max(end - most, 0) : end])
            counts.append(end - first - 1)
        scores = self.scorer.score(windows)
        return [fsum(each.own.told[-n:]) for each, n in zip(scores, counts, strict=True)]

    def _generated(self, context: str, options: Mapping[str, Any]) -> str:
        until = options.get("until") or ()
        stops = [until] if isinstance(until, str) else list(until)
        most = int(options.get("max_gen_toks", _MOST))
        known = self.scorer.models[0].card.max_tokens
        ids = tuple(self.codec.encode(context))[-max(known - most, 1) :]

        def stop(made: Sequence[int]) -> bool:
            text = self.codec.decode(made)
            return any(each in text for each in stops)

        made = self.scorer.go_on(ids, min(most, known - len(ids)), stop)
        text = self.codec.decode(made.ids)
        ends = [at for at in map(text.find, stops) if at >= 0]
        return text[: min(ends)] if ends else text

    def _begin(self) -> list[int]:
        return sorted(self.scorer.models[0].card.end_ids)[:1] or [0]

    def _last(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return as much of the end as the model reads."""
        return tuple(ids[-self.scorer.models[0].card.max_tokens :])


def run_harness(
    names: Sequence[str], scorer: Scorer, codec: Codec, limit: int | None = None
) -> dict[str, dict[str, float]]:
    """Return what tasks of the harness report, by task.

    Raises:
        GraphError: The package is not installed, it does not know a task, or its data is not here.
    """
    if find_spec("lm_eval") is None:
        raise GraphError(
            code="missing-package",
            reason=f"the tasks {', '.join(names)} need the package `lm_eval`, which is not "
            "installed",
            hint="pip install lm-eval; or give a set of your own with --data",
        )
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))  # before it is imported: it looks once
    harness: Any = import_module("lm_eval")
    base: Any = import_module("lm_eval.api.model").LM
    adapter: Any = type("AscendfxLM", (LM, base), {"__init__": _begin_of(base)})
    try:
        found: Any = harness.simple_evaluate(
            model=adapter(scorer, codec), tasks=list(names), limit=limit, bootstrap_iters=0
        )
    except Exception as error:  # the harness and its data sets raise classes of many packages
        raise GraphError(
            "harness-failed",
            f"lm-evaluation-harness cannot run {', '.join(names)}: {error}",
            hint="its data has to be in the local cache; nothing is downloaded",
        ) from error
    return {
        task: {key: float(value) for key, value in sorted(figures.items()) if _is_number(value)}
        for task, figures in found["results"].items()
    }


def _begin_of(base: Any) -> Callable[..., None]:
    def begin(self: Any, scorer: Scorer, codec: Codec) -> None:
        base.__init__(self)
        LM.__init__(self, scorer, codec)

    return begin


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
