"""`compile`: from a model to an engine that generates."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.quant_passes.insertion.chosen_lines import QuantLine
from ascendfx.runtime.arguments import (
    check_all,
    check_function,
    check_text,
    checked_folder,
    wrong_type,
)
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.start_engine import check_executor, start_engine

if TYPE_CHECKING:
    from torch import nn


def compile(  # noqa: A001  # the field's name for it
    model: "nn.Module | str | PathLike[str]",
    target: str = "ascend910b",
    *,
    dtype: str | None = None,
    max_batch: int = 16,
    max_context: int = 1024,
    prefill_chunk: int = 128,
    cache_blocks: int | None = None,
    draft_tokens: int = 0,
    draft_tree: Sequence[int] = (),
    group_steps: int = 8,
    draft: "nn.Module | None" = None,
    draft_chaining: str = "post-norm",
    executor: str = "emulator",
    strategy: str = "ordered",
    quant: str | Sequence[QuantLine] | None = None,
    rules: Sequence[Rule] = (),
    passes: Sequence[ProgramPass] = (),
    verify: str | None = None,
    verify_tokens: Sequence[Sequence[int]] | None = None,
    verify_length: int | None = None,
    dump_dir: str | PathLike[str] | None = None,
    kernel_cache: str | PathLike[str] | None = None,
    progress: Progress = silent,
) -> Engine:
    """Compile a DeepSeek model for an Ascend 910B and return an engine that runs it.

    The plain forward is captured, raised to operations of the field, turned into the step that
    serves (cache placed by a minimum cut, projections absorbed for decode), lowered to a static
    launch plan and emitted as Ascend C.

    Args:
        model: A causal language model ``logits = model(input_ids)``, or a Hugging Face directory
            with ``config.json`` and safetensors.
        target: ``ascend910b1`` to ``ascend910b4``; ``ascend910b`` is ``ascend910b2``.
        dtype: ``"float32"`` or ``"bfloat16"``; None keeps the checkpoint's own.
        max_batch: Requests that a decode step serves.
        max_context: Tokens of a request, prompt and answer.
        prefill_chunk: Prompt tokens that a prefill step serves.
        cache_blocks: Cache blocks of 128 tokens; None: enough for ``max_batch`` full requests.
        draft_tokens: Tokens that draft layers (multi-token prediction) propose per request and
            decode step, 0 to 8. The main model verifies them in the same step; what that
            promises about the text is a choice of each request, see `Sampling`. By default it
            is the text without drafts.
        draft_tree: How many candidates draft layers propose at each depth, such as ``(3, 2, 1)``;
            the most likely one of each depth has candidates behind it. More of them are right than
            of as many ``draft_tokens``, which is the tree of one candidate each. Requests are
            verified by ``"exact"`` and have no penalties. Empty: no tree.
        group_steps: Decode steps whose tokens the device keeps until the host reads them.
        draft: A draft layer of your own, ``forward(token_ids, hidden)`` to logits, logits and a
            hidden state, or logits, normed and raw hidden state; None: those of the checkpoint.
        draft_chaining: Which hidden state a draft layer reads: ``"post-norm"`` (transformers,
            SGLang) or ``"pre-norm"`` (vLLM).
        executor: ``"emulator"`` builds the kernels with g++ and runs them on the CPU;
            ``"reference"`` interprets the graph in float64.
        strategy: ``"ordered"`` applies rules in a fixed order, ``"search"`` looks for the cheapest
            form of each plan under the cost model of the target (needs egglog).
        quant: ``"w8a8"``: attention, experts and dense layers multiply eight-bit codes, made of
            weights by output channel and of their inputs token by token, without data;
            ``"w4a8"``: four bits for the weights of routed experts. ``"w8a8kv8"``, ``"w4a8kv8"``:
            the latent cache holds eight-bit codes, too, with a scale per token; rotated keys keep
            their format. Other choices: lines of `SiteLine` and `CacheLine`, the first one that
            fits a weight or a cache decides. None: numbers are those of the model, unless its
            weights come as codes.
        rules: Rules of your own that `ascendfx.rules.register` has checked; they are applied where
            the operations are raised, before the caches are placed.
        passes: Passes of your own (`ascendfx.passes.graph_pass.ProgramPass`), applied after the
            rules. They are not proved: use ``verify``.
        verify: Verification of passes (of files: ``load(verify=...)``; of drafts:
            ``Sampling(verification=...)``). ``"each-pass"`` compares the program after each pass
            with the captured one, in float64, on real weights and layer by layer; a pass that
            breaks its fidelity stops the compilation with a report of the errors, the layer and the
            operation.
        verify_tokens: Texts, as token ids, that ``verify`` runs on; None: two random ones.
        verify_length: Tokens of each random text that ``verify`` runs on, ``--verify-tokens`` on
            the command line; None: 32. Time grows with the square of it. A mistake that needs a
            longer text is not seen.
        dump_dir: Receives the program after each pass, plans and kernels; `ascendfx bisect` and
            `ascendfx report` read it.
        kernel_cache: Folder of built kernels and traced models; None: the user's cache folder.
        progress: ``progress(what, done, total)`` as each stage goes on, ``done == total`` at its
            end; silent by default. The README has one that prints.

    Raises:
        GraphError: The model cannot be captured or lowered, or an option is wrong; the message
            says what, where and what to do.
    """
    check_text("target", target)
    if dtype is not None:
        check_text("dtype", dtype)
    check_text("strategy", strategy)
    if verify is not None:
        check_text("verify", verify)
    check_all("rules", rules, Rule)
    check_all("passes", passes, ProgramPass)
    check_executor(executor)
    check_function("progress", progress)
    dumps = checked_folder("dump_dir", dump_dir)
    kernels = checked_folder("kernel_cache", kernel_cache)
    check_text("draft_chaining", draft_chaining)
    if draft is not None and not callable(getattr(draft, "forward", None)):
        raise wrong_type("draft", draft, "a module with forward(token_ids, hidden)")
    limits = Limits(
        max_batch,
        max_context,
        prefill_chunk,
        cache_blocks,
        draft_tokens,
        group_steps,
        # A list is as good as a tuple; what is neither is refused there.
        tuple(draft_tree) if isinstance(draft_tree, list) else draft_tree,  # pyright: ignore[reportArgumentType]
    )
    compiled = compile_model(
        model,
        target,
        dtype=dtype,
        limits=limits,
        strategy=strategy,
        quant=quant,
        rules=rules,
        passes=passes,
        draft=draft,
        draft_chaining=draft_chaining,
        verify=verify,
        verify_tokens=verify_tokens,
        verify_length=verify_length,
        dump_dir=dumps,
        trace_folder=trace_folder_of(kernels),
        progress=progress,
    )
    return start_engine(compiled, executor, kernel_cache=kernels, progress=progress)
