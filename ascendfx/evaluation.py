"""How well a model predicts and answers, beside the one that it was made of.

>>> from ascendfx import evaluation as e
>>> own = e.open_model("model", e.ModelOptions(quant="w8a8"))  # doctest: +SKIP
>>> report = e.evaluate(own, [Path("set.jsonl")], truth=e.open_model("model"))  # doctest: +SKIP
>>> report.figures("perplexity")["kl"], report.garbled  # doctest: +SKIP

Tasks, the form of sets and what figures mean are told in runtime/evaluate/README.md. Processes that
share an evaluation call `join_group` first and pass what it returns as ``workers``.
"""

from ascendfx.runtime.evaluate.evaluate import EvaluationOptions, evaluate
from ascendfx.runtime.evaluate.harness import LM
from ascendfx.runtime.evaluate.language_model import LanguageModel, ModelCard, Prediction
from ascendfx.runtime.evaluate.open_model import ModelOptions, lines_of_recipe, open_model
from ascendfx.runtime.evaluate.report import EvaluationReport
from ascendfx.runtime.evaluate.run_program import CodeLimits
from ascendfx.runtime.evaluate.workers import Workers, join_group

__all__ = [
    "LM",
    "CodeLimits",
    "EvaluationOptions",
    "EvaluationReport",
    "LanguageModel",
    "ModelCard",
    "ModelOptions",
    "Prediction",
    "Workers",
    "evaluate",
    "join_group",
    "lines_of_recipe",
    "open_model",
]
