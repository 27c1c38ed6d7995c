"""A model directory as its program means it: whole texts in float64, without kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Cast, Linear
from ascendfx.ir.program import Program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.quant_passes.insertion.cache_form import CacheLine
from ascendfx.quant_passes.insertion.chosen_lines import (
    QuantLine,
    check_quantized,
    chosen_lines,
    delivered_lines,
    draft_lines,
    quantizing_passes,
)
from ascendfx.quant_passes.insertion.site_form import SiteLine
from ascendfx.runtime.checkpoint.capture_model import capture_model, draft_layer_count
from ascendfx.runtime.evaluate.language_model import Ids, ModelCard, Prediction
from ascendfx.runtime.evaluate.whole_text import Carried, WholeText
from ascendfx.runtime.evaluate.wrong_numbers import no_numbers
from ascendfx.runtime.limits import DTYPES
from ascendfx.runtime.progress import Progress, silent

_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RaisedModel:
    """A captured model in operations of the field, of which several models can be made.

    Attributes:
        captured: Where its weights are, and what else is known.
        main: Ids to logits and, with a draft layer, the hidden state before them.
        draft: Its first draft layer, if it has one.
        origin: Directory and format; None: it is of no directory.
    """

    captured: CapturedModel
    main: Program
    draft: Program | None = None
    origin: tuple[Path, str | None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceModel:
    """Predicts a text in one pass, in as many parts as there are workers.

    Attributes:
        card: What is to be known of the model.
        main: Ids to logits and, with a draft layer, the hidden state before them.
        draft: Ids and hidden states to logits; None: there is no draft layer.
        remarks: What the capture left out.
        raised: What it was made of, for another one of the same directory.
    """

    card: ModelCard
    main: WholeText
    draft: WholeText | None = None
    remarks: tuple[str, ...] = ()
    raised: RaisedModel | None = None

    def predict(self, ids: Ids) -> Prediction:
        """Return the logits of a text.

        Raises:
            GraphError: A weight is missing or not finite; the logits are no numbers.
        """
        found = self.part(ids, {}, (0, 1))
        assert isinstance(found, Prediction)  # noqa: S101  # of the last part
        return found

    def part(self, ids: Ids, carried: Carried, part: tuple[int, int]) -> Carried | Prediction:
        """Run one part; the last one returns the logits.

        Raises:
            GraphError: As `predict`.
        """
        row = np.array([ids], np.int64)
        (name,) = self.main.program.main.input_types
        rest, results = self.main.part({name: row}, carried, part)
        if not results:
            return rest
        logits = _checked(results[0], self.card)
        if self.draft is None or len(ids) < 2:
            return Prediction(logits)
        given = dict(
            zip(self.draft.program.main.input_types, (row[:, 1:], results[1][:, :-1]), strict=True)
        )
        return Prediction(logits, _checked(self.draft.outputs(given)[0], self.card))


def reference_model(
    directory: Path,
    *,
    quant: str | Sequence[QuantLine] | None = None,
    dtype: str | None = None,
    trace_folder: Path | None = None,
    like: RaisedModel | None = None,
    progress: Progress = silent,
) -> ReferenceModel:
    """Return the program of a directory; codes that its weights bring along are multiplied.

    Args:
        directory: In the Hugging Face layout, in any form that is read.
        quant: As of `ascendfx.compile`.
        dtype: As of `ascendfx.compile`; numbers are not rounded to it.
        trace_folder: As of `capture_model`.
        like: Of another model; used if it is of the same directory and format.
        progress: Told about the capture.

    Raises:
        GraphError: The model cannot be captured, or nothing of it fits ``quant``.
    """
    main, draft = (_without_caches(each) for each in (chosen_lines(quant), draft_lines(quant)))
    known = directory.resolve(), dtype
    if like is None or like.origin != known:
        progress("capture", 0, 1)
        captured = capture_model(
            directory,
            dtype=DTYPES[dtype] if dtype else None,
            trace_folder=trace_folder,
            drafts=draft_layer_count(directory) > 0,
        )
        like = raised_model(captured, known)
        progress("capture", 1, 1)
    source = like.captured.source
    delivered = delivered_lines(source.keys(), source.dtype)
    return model_of(like, (*delivered, *main), str(directory), drafts=(*delivered, *draft))


def raised_model(
    captured: CapturedModel, origin: tuple[Path, str | None] | None = None
) -> RaisedModel:
    """Return a captured model in operations of the field; it takes most of the time to begin."""
    passes = (*RAISE, ShareCommon())
    main, _ = run_pipeline(captured.program, passes)
    exposed = with_hidden(main) if captured.drafts else None
    if exposed:
        draft, _ = run_pipeline(captured.drafts[0], passes)
        return RaisedModel(captured, exposed, draft, origin)
    if captured.drafts:
        left_out = "logits are no projection: the draft layer is left out"
        captured = replace(captured, remarks=(*captured.remarks, left_out))
    return RaisedModel(captured, main, None, origin)


def model_of(
    raised: RaisedModel,
    lines: Sequence[SiteLine] = (),
    name: str = "model",
    *,
    drafts: Sequence[SiteLine] = (),
) -> ReferenceModel:
    """Return a raised model, with projections that multiply codes where lines say so.

    Args:
        raised: The model.
        lines: For its layers.
        name: Of the model.
        drafts: For its draft layer.

    Raises:
        GraphError: Nothing of it fits the lines.
    """
    main = run_pipeline(raised.main, quantizing_passes(lines))[0]
    check_quantized(main, lines)
    facts, source = raised.captured.facts, raised.captured.source
    draft = None
    if raised.draft:
        draft = WholeText(run_pipeline(raised.draft, quantizing_passes(drafts))[0], source)
    card = ModelCard(
        name,
        facts.vocabulary or _vocabulary(main),
        facts.max_positions or _LONGEST,
        frozenset(facts.end_ids),
        facts.tokenizer,
    )
    remarks = raised.captured.remarks
    return ReferenceModel(card, WholeText(main, source), draft, remarks, raised)


def _without_caches(lines: Sequence[QuantLine]) -> tuple[SiteLine, ...]:
    """Return the lines for projections.

    Raises:
        GraphError: `needs-engine`: a cache is stored as codes.
    """
    if any(isinstance(line, CacheLine) and line.form for line in lines):
        raise GraphError(
            "needs-engine",
            "whole texts have no latent cache that could be stored as codes",
            hint='evaluate the kernels, executor="emulator"',
        )
    return tuple(line for line in lines if isinstance(line, SiteLine))


def with_hidden(program: Program) -> Program | None:
    """Return a program that also returns what its logits are a projection of; None: they are none.

    It is what a draft layer reads.
    """
    main = program.main
    logits = _uncast(main, main.outputs[0])
    if not isinstance(main.op_of(logits), Linear):
        return None
    hidden = main.nodes[logits.node].operands[0]
    exposed = Graph(main.name, main.nodes, (main.outputs[0], hidden))
    return Program((exposed, *program.graphs[1:]), program.recipes)


def _vocabulary(program: Program) -> int:
    size = program.main.output_types[0].shape[-1]
    return size if isinstance(size, int) else _LONGEST


def _uncast(graph: Graph, value: Value) -> Value:
    while isinstance(graph.op_of(value), Cast):
        value = graph.nodes[value.node].operands[0]
    return value


def _checked(logits: Array, card: ModelCard) -> Array:
    """Return the logits of the one text of a batch."""
    if not np.isfinite(logits).all():
        raise no_numbers(card.name)
    return logits[0]
