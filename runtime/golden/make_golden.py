"""Compile a model and write everything that a golden directory freezes."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.portable_path import shown_file
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import LOGIT_ROWS
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.rule import Rule
from ascendfx.passes.verification.follow_truth import Step, find_truth, follow_truth
from ascendfx.passes.verification.run_with_noise import Noisy, tolerance
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.bisect_dump import captured_program
from ascendfx.runtime.dumps.dump_header import HEADER as DUMP_HEADER
from ascendfx.runtime.dumps.dump_header import TIMING
from ascendfx.runtime.dumps.json_file import read_json_file, write_json, write_text
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.golden.golden_directory import (
    DUMP,
    TRUTH,
    Golden,
    GoldenHeader,
    Output,
    write_golden,
)
from ascendfx.runtime.limits import DEFAULT_LIMITS, Limits
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.start_engine import start_engine
from ascendfx.runtime.start_verifier import token_ids

if TYPE_CHECKING:
    from torch import nn

_SOURCE = re.compile(r"^// source (?P<short>\S+) = (?P<path>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Subject:
    """What is compiled, and what it is run on.

    Attributes:
        model: A module, or a Hugging Face directory.
        target: Name of the chip.
        dtype: Element format; None for the checkpoint's own.
        limits: Sizes the plans are made for.
        strategy: How forms are chosen.
        rules: Registered rules of the caller.
        passes: Passes of the caller.
        draft: A draft layer of the caller; None: those of the checkpoint, where drafts are wanted.
        draft_chaining: Which hidden state draft layers read.
        tokens: Texts as token ids; None: two random ones.
        new_tokens: How many tokens the emitted kernels generate from each text in the emulator;
            0: they are not run.
        kernel_cache: Folder of built kernels and traced models; None: the user's cache folder.
    """

    model: "nn.Module | str | PathLike[str]"
    target: str = "ascend910b"
    dtype: str | None = None
    limits: Limits = field(default=DEFAULT_LIMITS)
    strategy: str = "ordered"
    rules: Sequence[Rule] = ()
    passes: Sequence[ProgramPass] = ()
    draft: "nn.Module | None" = None
    draft_chaining: str = CHAININGS[0]
    tokens: Sequence[Sequence[int]] | None = None
    new_tokens: int = 0
    kernel_cache: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What a golden directory records of the options."""
        chaining = self.draft_chaining
        return {
            "target": self.target,
            "dtype": self.dtype,
            "limits": self.limits.recorded(),
            "strategy": self.strategy,
            **({} if chaining == CHAININGS[0] else {"draft_chaining": chaining}),
        }


@dataclass(frozen=True)
class Made:
    """A golden directory that was just made.

    Attributes:
        golden: What it holds.
        compiled: The model that it is of.
    """

    golden: Golden
    compiled: CompiledModel


def make_golden(
    subject: Subject, folder: Path, place: Path, *, progress: Progress = silent
) -> Made:
    """Compile, run and write into a folder.

    Args:
        subject: What is compiled.
        folder: Must not exist.
        place: Where the folder will go; the path of the model is recorded relative to it.
        progress: Told about each stage.

    Raises:
        GraphError: The model cannot be compiled or run, or the folder cannot be written.
    """
    compiled = compile_model(
        subject.model,
        subject.target,
        dtype=subject.dtype,
        limits=subject.limits,
        strategy=subject.strategy,
        rules=subject.rules,
        passes=subject.passes,
        draft=subject.draft,
        draft_chaining=subject.draft_chaining,
        dump_dir=folder / DUMP,
        trace_folder=trace_folder_of(subject.kernel_cache),
        progress=progress,
    )
    dump = read_dump(folder / DUMP)
    captured = captured_program(dump)
    ids = token_ids(subject.tokens, compiled.config.vocabulary)
    progress("outputs", 0, 1)
    outputs = _outputs(captured, compiled, ids)
    progress("outputs", 1, 1)
    model = subject.model
    header = GoldenHeader(
        model=os.path.relpath(model, place) if isinstance(model, str | PathLike) else None,
        options=subject.options,
        tokens=ids.tolist(),
        new_tokens=subject.new_tokens,
        generated=_generated(compiled, ids, subject, progress),
        weights=_hashes(captured, compiled),
    )
    _make_portable(folder / DUMP)
    write_golden(folder, header, outputs)
    return Made(Golden(folder, header, outputs), compiled)


def _outputs(captured: Program, compiled: CompiledModel, ids: Array) -> Mapping[str, Output]:
    tensors = TensorsByKey(compiled.source)
    truth = find_truth(captured, tensors, ids)
    alone = replace(truth, calls=())  # a run of the whole model, not of each layer by itself
    outputs: dict[str, Output] = {}
    for name, program in compiled.programs.items():
        steps = list(follow_truth(program, tensors, alone, steps=2))
        outputs[name] = _stacked([step.run.outputs[1] for step in steps])  # tokens are the first
        outputs[TRUTH] = _stacked([_same_rows(truth.logits, step) for step in steps])
    return outputs


def _same_rows(logits: Noisy, step: Step) -> Noisy:
    """Return those of ``[texts, tokens, vocab]`` that a serving step has: the last of each text."""
    controls = [step.inputs[name][0] for name in ("row_request", "positions", LOGIT_ROWS)]
    texts, positions, rows = controls
    return logits[0][texts[rows], positions[rows]], logits[1][texts[rows], positions[rows]]


def _stacked(values: Sequence[Noisy]) -> Output:
    return Output(np.stack([clean for clean, _ in values]), max(map(tolerance, values)))


def _generated(
    compiled: CompiledModel, ids: Array, subject: Subject, progress: Progress
) -> list[list[int]]:
    if not subject.new_tokens:
        return []
    engine = start_engine(
        compiled, "emulator", kernel_cache=subject.kernel_cache, progress=progress
    )
    texts = engine.generate(ids.tolist(), max_new_tokens=subject.new_tokens, stop_at_eos=False)
    return [list(each.token_ids) for each in texts]


def _hashes(captured: Program, compiled: CompiledModel) -> dict[str, str]:
    """Return a hash per tensor, those of draft layers included; one tensor is held at a time."""
    of_plans = {key for spec in compiled.weights for key in spec.keys}
    return {
        key: hashlib.sha256(np.ascontiguousarray(compiled.source.load(key)).tobytes()).hexdigest()[
            :32
        ]
        for key in sorted(of_plans.union(checkpoint_types(captured)))
    }


def _make_portable(dump: Path) -> None:
    """Take durations and paths of this machine out of a dump: it goes into version control."""
    with writing(dump):
        (dump / TIMING).unlink(missing_ok=True)
        header = read_json_file(dump / DUMP_HEADER, "the header of a dump")
        write_json(dump / DUMP_HEADER, header | {"source": None})
        short: dict[str, str] = {}
        for file in sorted(dump.glob("*/*.ir")):
            text = file.read_text(encoding="utf-8")
            for found in _SOURCE.finditer(text):
                short |= dict.fromkeys((found["path"], shown_file(found["path"])), found["short"])
            write_text(file, _SOURCE.sub(r"// source \g<short> = \g<short>", text))
        for file in sorted(dump.glob("*/*.json")):
            text = file.read_text(encoding="utf-8")
            for path, name in sorted(short.items(), key=lambda each: -len(each[0])):
                text = text.replace(f"{json.dumps(path, ensure_ascii=False)[1:-1]}:", f"{name}:")
            write_text(file, text)
