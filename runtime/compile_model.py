"""The chain from a model to plans: capture, rewrite, lower."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.target import Target, find_target
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.capture.captured_model import CapturedModel, ModelFacts
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import PLANS
from ascendfx.ir.step_state import STOP_COLUMNS
from ascendfx.passes.expose_hidden import CHAININGS, check_chaining
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.registered_rules import require_registered
from ascendfx.passes.rule import Rule
from ascendfx.quant_passes.insertion.cache_form import CacheLine
from ascendfx.quant_passes.insertion.chosen_lines import (
    QuantLine,
    check_quantized,
    chosen_lines,
    delivered_lines,
    draft_lines,
    quantizing_passes,
)
from ascendfx.runtime.checkpoint.capture_model import capture_model, draft_layer_count
from ascendfx.runtime.checkpoint.file_stamp import FileStamp, stamp_of
from ascendfx.runtime.checkpoint.present_file import check_name, is_present
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.device_memory import check_kept
from ascendfx.runtime.draft_stages import draft_stage_names, drafts_of_plan, serve_drafts
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.limits import DEFAULT_LIMITS, DTYPES, Limits
from ascendfx.runtime.lowering import Lowering
from ascendfx.runtime.presets import TO_SERVING, closing_passes, passes_for, serving_passes
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.rewriting import Rewriting
from ascendfx.runtime.start_verifier import check_mode, start_verifier, verify_header

if TYPE_CHECKING:
    from torch import nn


def compile_model(
    model: "nn.Module | str | PathLike[str]",
    target: str = "ascend910b",
    *,
    dtype: str | None = None,
    limits: Limits | None = None,
    plans: Sequence[str] = PLANS,
    strategy: str = "ordered",
    quant: str | Sequence[QuantLine] | None = None,
    rules: Sequence[Rule] = (),
    passes: Sequence[ProgramPass] = (),
    draft: "nn.Module | None" = None,
    draft_chaining: str = CHAININGS[0],
    verify: str | None = None,
    verify_tokens: Sequence[Sequence[int]] | None = None,
    verify_length: int | None = None,
    dump_dir: Path | None = None,
    trace_folder: Path | None = None,
    progress: Progress = silent,
) -> CompiledModel:
    """Return plans and kernels; nothing is built or run.

    Args:
        model: ``nn.Module``, or a Hugging Face directory.
        target: Name of the chip.
        dtype: ``"float32"`` or ``"bfloat16"``; None keeps the checkpoint's own.
        limits: Sizes the plans are made for, and the number of draft tokens.
        plans: Which kinds of step to compile.
        strategy: ``"ordered"`` applies rules in a fixed order, ``"search"`` looks for the cheapest
            form.
        quant: Which projections multiply codes, and whether the latent cache holds them: a preset,
            or lines; see `InsertQuantization` and `QuantizeCache`. Weights whose codes the model
            brings along multiply codes in any case.
        rules: Registered rules of the caller, applied to the raised operations; see
            `ascendfx.runtime.presets.serving_passes`.
        passes: Passes of the caller, after the rules. They are not proved: use ``verify``.
        draft: A draft layer of the caller, see `capture_model`; None: those of the checkpoint, if
            ``limits`` wants drafts.
        draft_chaining: Which hidden state draft layers read: ``"post-norm"`` or ``"pre-norm"``.
        verify: Verification of passes, not of files or drafts. ``"each-pass"`` compares the program
            after each pass with the captured one, in float64 and layer by layer, over draft layers
            and closed steps, too; a pass that breaks its fidelity stops the compilation.
        verify_tokens: Texts that ``verify`` runs on; None: random ones.
        verify_length: Tokens of each random text that ``verify`` runs on; None: 32.
        dump_dir: Receives the program after each pass, plans and kernels; see dumps/README.md.
        trace_folder: Keeps what tracing a directory yields for the next time; None: no folder.
        progress: Told about each stage.

    Raises:
        GraphError: The model cannot be captured or lowered, an option is wrong, a pass breaks its
            fidelity, or the dumps cannot be written.
    """
    chip = find_target(target)
    limits = limits or DEFAULT_LIMITS
    _check_dtype(dtype)
    check_mode(verify, verify_tokens, verify_length)
    check_chaining(draft_chaining)
    _check_draft(draft, limits)
    wanted = limits.draft_tokens
    own = require_registered(rules)
    chosen = {
        name: passes_for(name, strategy=strategy, target=chip, limits=limits, rules=own)
        for name in plans
    }
    to_serving = serving_passes(own, passes, hidden=draft_chaining if wanted else None)
    lines = chosen_lines(quant)
    _check_tree(limits, lines)
    stamp = _check_tokenizer(model)  # the engine would say so, but after minutes
    writer = DumpWriter(dump_dir) if dump_dir else None
    if writer:  # before the work, not after it
        about = verify_header(verify, verify_tokens, verify_length)
        layers = _draft_layers(model, draft, wanted)
        stages = ("serving", *draft_stage_names(plans, layers), *plans)
        header = _header(model, dtype, chip, limits, strategy, stages)
        writer.begin(replace(header, verify=about))
    captured = _captured(
        model, dtype, trace_folder, progress, drafts=draft if draft is not None else bool(wanted)
    )
    captured = replace(captured, drafts=captured.drafts[:wanted])
    verifier = (
        start_verifier(captured, verify_tokens, verify_length, progress, chaining=draft_chaining)
        if verify
        else None
    )
    rewriting = Rewriting(writer, verifier, progress)
    delivered = delivered_lines(captured.source.keys(), captured.source.dtype)
    lines = (*delivered, *lines)
    quantizing = quantizing_passes(lines)
    quantizing_drafts = quantizing_passes((*delivered, *draft_lines(quant)))
    serving, misses = rewriting.run("serving", captured.program, (*to_serving, *quantizing))
    check_quantized(serving, lines)
    lowering = Lowering(chip, limits, writer, progress)
    drafts = serve_drafts(captured.drafts, rewriting, (*TO_SERVING, *quantizing_drafts))
    programs: dict[str, Program] = {}
    steps: dict[str, Program] = {}
    lowered: dict[str, LaunchPlan] = {}
    weights: dict[str, WeightSpec] = {}
    for name in plans:
        depths = drafts_of_plan(drafts, rewriting, chosen[name], plan=name, drafts=wanted)
        programs[name], more = rewriting.run(name, serving, chosen[name])
        closing = closing_passes(name, depths, chaining=draft_chaining, branches=limits.draft_tree)
        steps[name], last = rewriting.go_on(name, programs[name], closing)
        check_kept(steps[name], limits.blocks, limits.max_batch, chip)
        lowered[name], specs = lowering.run(name, steps[name], (*misses, *more, *last))
        weights.update({spec.name: spec for spec in specs})
    if verifier and writer:
        writer.timed("verification", verifier.seconds)
    return CompiledModel(
        target=chip,
        config=ServingConfig(
            captured.facts.vocabulary, frozenset(captured.facts.end_ids), BLOCK_TOKENS
        ),
        programs=programs,
        steps=steps,
        plans=lowered,
        weights=tuple(weights.values()),
        source=captured.source,
        tokenizer=captured.facts.tokenizer,
        remarks=(*captured.remarks, *_context_remark(captured.facts, limits.max_context)),
        checks=tuple(verifier.checks) if verifier else (),
        tokenizer_stamp=stamp,
        searches=tuple(rewriting.searches),
    )


def _check_dtype(dtype: str | None) -> None:
    if dtype is not None and dtype not in DTYPES:
        raise GraphError(
            "unknown-dtype", f"no element format `{dtype}`", hint="use float32 or bfloat16"
        )


def _check_draft(draft: "nn.Module | None", limits: Limits) -> None:
    if draft is not None and not limits.draft_tokens:
        raise GraphError(
            "bad-limit",
            "a draft layer is given, but draft_tokens is 0",
            hint="pass draft_tokens=1, or no draft",
        )


def _check_tree(limits: Limits, lines: Sequence[QuantLine]) -> None:
    coded = any(isinstance(line, CacheLine) and line.form is not None for line in lines)
    if coded and limits.draft_tree:
        raise GraphError(
            "bad-limit",
            "a tree of drafts moves entries of caches of one format, and `quant` asks for a latent "
            "cache of codes beside rotated keys",
            hint="use draft_tokens without a draft_tree, or a preset without `kv8`",
        )


def _check_tokenizer(model: "nn.Module | str | PathLike[str]") -> FileStamp | None:
    """Check that a tokenizer beside the model can be read; return which file it is."""
    if isinstance(model, str | PathLike):
        check_name(Path(model))
    file = Path(model) / "tokenizer.json" if isinstance(model, str | PathLike) else None
    if not file or not is_present(file):
        return None
    stamp = stamp_of(file.stat())
    TextCodec(file)
    return stamp


def _draft_layers(
    model: "nn.Module | str | PathLike[str]", draft: "nn.Module | None", wanted: int
) -> int:
    """Return how many distinct draft layers a compilation has; a caller gives one."""
    if wanted and draft is None and isinstance(model, str | PathLike):
        return min(wanted, draft_layer_count(Path(model)))
    return min(wanted, 1)


def _captured(
    model: "nn.Module | str | PathLike[str]",
    dtype: str | None,
    trace_folder: Path | None,
    progress: Progress,
    *,
    drafts: "bool | nn.Module",
) -> CapturedModel:
    progress("capture", 0, 1)
    captured = capture_model(
        model, dtype=DTYPES[dtype] if dtype else None, trace_folder=trace_folder, drafts=drafts
    )
    progress("capture", 1, 1)
    if captured.facts.dtype not in DTYPES.values():
        raise GraphError(
            code="unknown-dtype",
            reason=f"the model computes in {captured.facts.dtype.value}, kernels in f32 and bf16",
            hint='pass dtype="float32" or dtype="bfloat16"',
        )
    ends = len(set(captured.facts.end_ids))
    if ends > STOP_COLUMNS:  # else the first request would say so
        raise GraphError(
            "bad-config",
            f"the model has {ends} end tokens (`eos_token_id` of generation_config.json or "
            f"config.json), a step on the device compares with {STOP_COLUMNS}",
            hint="leave those that its answers can end with",
        )
    return captured


def _context_remark(facts: ModelFacts, max_context: int) -> tuple[str, ...]:
    """Return a line if texts may become longer than the model was made for; eager models say so.

    It is no error: numbers stay those of the model, whose configuration may understate it.
    """
    if not 0 < facts.max_positions < max_context:
        return ()
    return (
        f"max_context is {max_context:,}, {facts.name} was made for {facts.max_positions:,} tokens "
        f"(max_position_embeddings): answers may get worse beyond; "
        f"max_context={facts.max_positions} ends texts there",
    )


def _header(
    model: "nn.Module | str | PathLike[str]",
    dtype: str | None,
    target: Target,
    limits: Limits,
    strategy: str,
    stages: Sequence[str],
) -> DumpHeader:
    named = isinstance(model, str | PathLike)
    return DumpHeader(
        source=str(Path(model).resolve()) if named else None,
        dtype=dtype,
        target=target.name,
        limits=limits.recorded(),
        strategy=strategy,
        stages=stages,
    )
