"""Samples to records: each worker does its own, or all do all together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.language_model import Continuation
from ascendfx.runtime.evaluate.sample import Sample
from ascendfx.runtime.evaluate.scorer import Scorer
from ascendfx.runtime.evaluate.sums import Record
from ascendfx.runtime.evaluate.task import Answer, AnsweringTask, ScoringTask
from ascendfx.runtime.evaluate.tasks import Tasks
from ascendfx.runtime.evaluate.workers import Workers
from ascendfx.runtime.progress import Progress

AT_ONCE = 16
"""Samples whose texts pass through parts of a model one behind the other."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """What samples are measured with.

    Attributes:
        tasks: By name.
        scorer: The models.
        decode: Token ids to text.
        new_tokens: The longest answer.
    """

    tasks: Tasks
    scorer: Scorer
    decode: Callable[[Sequence[int]], str]
    new_tokens: int

    def records(self, samples: Sequence[tuple[int, Sample]], at_once: int = 1) -> Iterator[Record]:
        """Yield what each sample gives, in order; texts of so many are asked for together."""
        for first in range(0, len(samples), at_once):
            together = samples[first : first + at_once]
            scoring = [s for _, s in together if isinstance(self.tasks[s.task], ScoringTask)]
            texts = [part.ids for sample in scoring for part in sample.parts]
            scores = iter(self.scorer.score(texts))
            for index, sample in together:
                task = self.tasks[sample.task]
                if isinstance(task, ScoringTask):
                    sums = task.sums(sample, [next(scores) for _ in sample.parts])
                    yield Record(index, sample.task, sample.language, sample.kind, sums)
                else:
                    yield self._answered(index, sample, task)

    def _answered(self, index: int, sample: Sample, task: AnsweringTask) -> Record:
        sums: dict[str, float] = {}
        remark = ""
        for number, name in enumerate(("", "float ")[: len(self.scorer.models)]):
            made = self._written(sample, number)
            text = cut(self.decode(made.ids), sample.stops)
            own, told = task.judge(sample, Answer(text, made.ids))
            sums |= {f"{name}{key}": value for key, value in own.items()}
            sums |= {f"{name}new tokens": float(len(made.ids))}
            if made.proposed:
                sums[f"{name}proposed drafts"] = float(made.proposed)
                sums[f"{name}accepted drafts"] = float(made.accepted)
            remark = remark or ("" if number else told)
        return Record(index, sample.task, sample.language, sample.kind, sums, remark)

    def _written(self, sample: Sample, of: int) -> Continuation:
        def stop(ids: Sequence[int]) -> bool:
            text = self.decode(ids) if sample.stops else ""
            return any(each in text for each in sample.stops)

        return self.scorer.go_on(sample.parts[0].ids, self.new_tokens, stop, of=of)


def measure(
    samples: Sequence[Sample],
    measuring: Measuring,
    workers: Workers,
    *,
    together: bool,
    progress: Progress,
) -> list[Record]:
    """Return the records of all samples, in their order, on every worker.

    Args:
        samples: The same on every worker.
        measuring: What they are measured with.
        workers: All of them.
        together: Whether every worker takes part in each sample; else each has samples of its own.
        progress: Told about ``evaluate``, in samples of this worker.

    Raises:
        GraphError: Some worker found a mistake; then all raise it.
    """
    if together:
        mine = list(enumerate(samples))
    else:
        owned = shares([sample.tokens for sample in samples], workers.size)[workers.rank]
        mine = [(index, samples[index]) for index in owned]
    records: list[Record] = []
    failure: dict[str, Any] | None = None
    progress("evaluate", 0, len(mine))
    try:
        for record in measuring.records(mine, AT_ONCE if together else 1):
            records.append(record)
            progress("evaluate", len(records), len(mine))
    except GraphError as error:
        if together:
            raise
        failure = dict(vars(error))
    if together:
        return records
    gathered = workers.gather((records, failure))
    for _, found in gathered:
        if found is not None:
            error = GraphError.__new__(GraphError)  # it does not survive being pickled
            vars(error).update(found)
            raise error
    return sorted(
        (record for theirs, _ in gathered for record in theirs), key=lambda each: each.index
    )


def shares(costs: Sequence[int], workers: int) -> list[list[int]]:
    """Return which samples each worker has: the largest ones first, to whom has least."""
    owned: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0, rank) for rank in range(workers)]
    heapify(loads)
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        load, rank = heappop(loads)
        owned[rank].append(index)
        heappush(loads, (load + costs[index], rank))
    return owned


def cut(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first stop."""
    ends = [at for at in map(text.find, stops) if at >= 0]
    return text[: min(ends)] if ends else text
