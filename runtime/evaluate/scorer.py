"""Texts to scores: by this process alone, or in parts by all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.language_model import (
    Continuation,
    Continues,
    Ids,
    LanguageModel,
    Prediction,
    Stop,
)
from ascendfx.runtime.evaluate.reference_model import ReferenceModel
from ascendfx.runtime.evaluate.token_scores import TokenScores, token_scores
from ascendfx.runtime.evaluate.workers import Workers

Done = Callable[[], None]
"""Told after each text."""


class Scorer(Protocol):
    """What tasks ask of the models."""

    @property
    def models(self) -> tuple[LanguageModel, ...]:
        """The model, and the float model if there is one."""
        ...

    def score(self, texts: Sequence[Ids]) -> list[TokenScores]:
        """Return the scores of each text, which depend on no other one."""
        ...

    def go_on(self, ids: Ids, most: int, stop: Stop, *, of: int = 0) -> Continuation:
        """Return at most so many likeliest tokens behind a text, of one of the models."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WholeModels:
    """Every worker has whole models, and scores texts of its own.

    Attributes:
        models: The model, and the float model if there is one.
    """

    models: tuple[LanguageModel, ...]

    def score(self, texts: Sequence[Ids]) -> list[TokenScores]:
        """Return the scores of each text."""
        return [token_scores(ids, *(each.predict(ids) for each in self.models)) for ids in texts]

    def go_on(self, ids: Ids, most: int, stop: Stop, *, of: int = 0) -> Continuation:
        """Return at most so many likeliest tokens behind a text."""
        model = self.models[of]
        if isinstance(model, Continues):
            return model.go_on(ids, most, stop)
        return _grown(
            ids, most, stop, model, lambda text: int(model.predict(text).logits[-1].argmax())
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """An error on its way through the parts.

    Attributes:
        fields: Of the error; `GraphError` itself does not survive being pickled.
    """

    fields: dict[str, Any]

    def error(self) -> GraphError:
        """Return the error."""
        made = GraphError.__new__(GraphError)
        vars(made).update(self.fields)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class PartsOfModels:
    """Every worker has some layers of each model; texts pass through all workers in order.

    While one worker has a text, the one before it has the next. All workers ask for the same.

    Attributes:
        models: The model, and the float model if there is one.
        workers: All of them.
    """

    models: tuple[ReferenceModel, ...]
    workers: Workers = field(repr=False)

    def score(self, texts: Sequence[Ids]) -> list[TokenScores]:
        """Return the scores of each text.

        Raises:
            GraphError: Some worker found a mistake.
        """
        return self._run(texts, self.models, lambda ids, found: token_scores(ids, *found))

    def go_on(self, ids: Ids, most: int, stop: Stop, *, of: int = 0) -> Continuation:
        """Return at most so many likeliest tokens behind a text."""
        models = (self.models[of],)

        def likeliest(text: Ids) -> int:
            return self._run([text], models, lambda _ids, found: int(found[0].logits[-1].argmax()))[
                0
            ]

        return _grown(ids, most, stop, models[0], likeliest)

    def _run(
        self,
        texts: Sequence[Ids],
        models: Sequence[ReferenceModel],
        last: Callable[[Ids, Sequence[Prediction]], Any],
    ) -> list[Any]:
        number, parts = self.workers.rank, self.workers.size
        results: list[Any] = []
        for ids in texts:
            carried: Any = [{} for _ in models] if number == 0 else self.workers.receive()
            if not isinstance(carried, _Failed):
                try:
                    carried = [
                        model.part(ids, each, (number, parts))
                        for model, each in zip(models, carried, strict=True)
                    ]
                    if number + 1 == parts:
                        carried = last(ids, carried)
                except GraphError as error:  # the others wait for this text
                    carried = _Failed(dict(vars(error)))
            if number + 1 < parts:
                self.workers.send(carried)
            else:
                results.append(carried)
        told = self.workers.from_last(results)
        for each in told:
            if isinstance(each, _Failed):
                raise each.error()
        return told


def _grown(
    ids: Ids, most: int, stop: Stop, model: LanguageModel, likeliest: Callable[[Ids], int]
) -> Continuation:
    """Return what follows, reading the whole text anew for each token."""
    made: list[int] = []
    while len(made) < most:
        token = likeliest((*ids, *made))
        if token in model.card.end_ids:
            break
        made.append(token)
        if stop(made):
            break
    return Continuation(tuple(made))
