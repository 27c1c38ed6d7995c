"""The tasks by name."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.choice import MultipleChoice, TrueFalse
from ascendfx.runtime.evaluate.code import Code
from ascendfx.runtime.evaluate.garbled import Garbled
from ascendfx.runtime.evaluate.mathematics import Mathematics
from ascendfx.runtime.evaluate.perplexity import Perplexity
from ascendfx.runtime.evaluate.question import QuestionAnswering
from ascendfx.runtime.evaluate.run_program import CodeLimits
from ascendfx.runtime.evaluate.task import AnsweringTask, ScoringTask

AnyTask = ScoringTask | AnsweringTask
Tasks = Mapping[str, AnyTask]
HARNESS = "lm-eval:"
"""How tasks of lm-evaluation-harness begin."""


def all_tasks(code: CodeLimits | None = None) -> Tasks:
    """Return all tasks; a row that names none is of the first that fits."""
    listed: Sequence[AnyTask] = (
        Code(code),
        MultipleChoice(),
        TrueFalse(),
        Mathematics(),
        QuestionAnswering(),
        Perplexity(),
        Garbled(),
    )
    return {task.name: task for task in listed}


TASKS = tuple(all_tasks())
"""Their names."""


def check_tasks(names: Sequence[str]) -> None:
    """Check names of tasks.

    Raises:
        GraphError: `unknown-task`.
    """
    for name in names:
        if name in TASKS or name.startswith(HARNESS):
            continue
        near = get_close_matches(name, TASKS, n=1)
        meant = f"did you mean `{near[0]}`? " if near else ""
        raise GraphError(
            "unknown-task",
            f"no task is called `{name}`",
            hint=f"{meant}known: {', '.join(TASKS)}, and {HARNESS}NAME for tasks of "
            "lm-evaluation-harness",
        )
