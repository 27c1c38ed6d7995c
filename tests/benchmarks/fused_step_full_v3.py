"""What drafting adds to a decode step of DeepSeek-V3 at full size, and what it is worth.

    python tests/benchmarks/fused_step_full_v3.py [LAYERS]        default: 61

Prints, for one draft token per step, every launch that draft layer, sampling, verification and
preparation add to the main model's step, and why it is there; then step time and tokens per second
over the batch, with and without drafts; then what is saved by choosing rows early, in the draft
layer of a decode step and in the last layer of a prompt's chunk. All figures of time and bytes are
modelled, for one chip that holds everything.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cost_model import LaunchCost, launch_cost
from ascendfx.codegen.ascendc.launch_plan import Launch, LaunchPlan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.gather_earlier import GatherEarlier
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.lowering import results_of
from ascendfx.runtime.presets import TO_SERVING, closing_passes, passes_for, serving_passes

TARGET = find_target("ascend910b2")
CONTEXT, SHOWN = 4096, 32
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ACCEPTANCE = (0.7, 0.9)
VOCABULARY, ELEMENT = 129_280, 2

MAIN = "main model"
GROUPS = ("sampling", "verification", "draft layer", "preparation")

REASONS = (
    ("sampling", r"^main: sample_tokens", "the token behind each row, drafts included"),
    ("verification", r"^main: verify_drafts", "leading drafts that equal what was sampled"),
    ("preparation", r"^main: pack_rows", "rows of drafts that there are, and their number"),
    ("preparation", r"^main: shift_tokens", "the draft's tokens: those of the rows, one further"),
    ("preparation", r"^main: advance_requests", "rows, slots, states and tokens of the next step"),
    ("draft layer", r"sample_drafts", "the draft itself, and what it was drawn from"),
    ("draft layer", r"embed_tokens: gather_rows", "embedding of the shifted tokens"),
    ("draft layer", r"rotary_emb: gather_rows", "rows of the rotary table, the main model's again"),
    (
        "draft layer",
        r"gather_rows_requests_",
        "rows whose drafts are wanted, of what is read",
    ),
    ("draft layer", r"n129280", "the shared head, for one row of each request"),
    ("draft layer", r"rms_norm \+ rms_norm \+ concat", "both norms of the inputs, side by side"),
    ("draft layer", r"_n7168_k14336_", "joins token and hidden state, 2H to H"),
    ("draft layer", r": rms_norm .*_n7168_", "norm before attention, or before the head"),
    ("draft layer", r"_n1536_k7168_", "queries, down"),
    ("draft layer", r": rms_norm .*_n1536_", "norm of the query latents"),
    ("draft layer", r"_n24576_k1536_", "queries, up"),
    ("draft layer", r"_n576_k7168_", "latents and rotated key of the cache"),
    ("draft layer", r": rms_norm \+ rotary", "norm of latents and rotation of the key in one"),
    ("draft layer", r": rotary", "rotation of the queries, for the rows whose drafts are wanted"),
    ("draft layer", r": cache_write", "the depth's own cache: latents, rotated keys"),
    ("draft layer", r"_b128_n512_k128_", "key projection, absorbed into the queries"),
    ("draft layer", r"latent_decode_attention", "attention over the depth's own cache"),
    ("draft layer", r"combine_attention_splits", "joins parts of long contexts"),
    ("draft layer", r"_b128_n128_k512_", "value projection, absorbed behind attention"),
    ("draft layer", r"_n7168_k16384_", "output projection of attention"),
    ("draft layer", r": add \+ rms_norm", "residual sum and norm before the experts, in one"),
    ("draft layer", r"_n256_k7168_f32", "scores of the router"),
    ("draft layer", r"route_topk", "choice of experts"),
    ("draft layer", r"dispatch_experts", "order of pairs by expert"),
    ("draft layer", r"gather_rows_request_pairs", "rows in that order"),
    ("draft layer", r"grouped_linear", "products of the chosen experts"),
    ("draft layer", r"swiglu", "activation: of experts, of the shared one"),
    ("draft layer", r"_n2048_k7168_", "gate and up of the shared expert"),
    ("draft layer", r"_n7168_k2048_", "down of the shared expert"),
    ("draft layer", r"combine_experts", "experts, shared one and residual, summed in one"),
)
"""Group, what stands in label and kernel of a launch, and why the step needs it."""


@dataclass(frozen=True)
class Line:
    """Launches of one kernel.

    Attributes:
        group: `MAIN` or one of `GROUPS`.
        kernel: Name.
        reason: Why it is there.
        launches: How many.
        each: Figures of one launch.
    """

    group: str
    kernel: str
    reason: str
    launches: int
    each: LaunchCost

    @property
    def bytes(self) -> float:
        """Bytes of all launches."""
        return self.launches * self.each.bytes

    @property
    def seconds(self) -> float:
        """Time of all launches."""
        return self.launches * self.each.seconds


def captured_v3(layers: int) -> CapturedModel:
    """Return V3 with its draft layer, on meta tensors."""
    import torch  # noqa: PLC0415
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    from ascendfx.ir.capture.mtp_layers import mtp_layers  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(num_hidden_layers=layers, torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    (layer,) = mtp_layers(model, 1, None)
    return capture_model(model, drafts=layer.module)


def lowered_plan(
    captured: CapturedModel, name: str, drafts: int, *, early: bool = True, packed: bool = True
) -> LaunchPlan:
    """Return the plan of a step that needs no host, with or without a draft.

    Args:
        captured: Main model and draft layer.
        name: ``decode`` or ``prefill``.
        drafts: Draft tokens per request.
        early: Whether rows are chosen as early as possible.
        packed: Whether drafts that a request does not have cost no rows.
    """
    limits = Limits(max(BATCHES), CONTEXT, draft_tokens=drafts)
    passes = passes_for(name, target=TARGET, limits=limits)
    hidden = CHAININGS[0] if drafts else None
    program, _ = run_pipeline(captured.program, (*serving_passes(hidden=hidden), *passes))
    layers = tuple(
        run_pipeline(draft, (*TO_SERVING, *passes))[0] for draft in captured.drafts[:drafts]
    )
    layers += layers[-1:] * (drafts - len(layers))
    left = (*(() if early else (GatherEarlier,)), *(() if packed else (DropPlaceholders,)))
    kept = (each for each in closing_passes(name, layers) if not isinstance(each, left))
    program, _ = run_pipeline(program, tuple(kept))
    step = limits.step(name)
    plan, _ = lower_program(
        program,
        target=TARGET,
        name=name,
        rows=step.rows,
        requests=step.requests,
        context=step.context,
        blocks=limits.blocks,
        steps=limits.group_steps,
        drafts=drafts,
        places=limits.max_batch,
        results=results_of(program),
    )
    return plan


def grouped(plan: LaunchPlan) -> Iterator[tuple[str, str, Launch]]:
    """Yield group, reason and launch; what stands before the first sample is the main model."""
    families = [plan.kernel_by_name[launch.kernel].family for launch in plan.launches]
    first = families.index("sample-tokens")
    for position, launch in enumerate(plan.launches):
        text = f"{launch.label} {launch.kernel}"
        found = [each for each in REASONS if re.search(each[1], text)]
        if position < first and families[position] != "pack-rows":
            yield MAIN, "", launch
        elif not found:
            raise AssertionError(f"no reason is given for {text}")
        else:
            yield found[0][0], found[0][2], launch


def lines(plan: LaunchPlan, step: StepSizes) -> list[Line]:
    """Return what a step costs, launches of one kernel and group together."""
    works = {each.kernel: each.work for each in plan.works}
    counts = Counter((group, reason, launch.kernel) for group, reason, launch in grouped(plan))
    return [
        Line(group, kernel, reason, count, launch_cost(works[kernel], TARGET, step))
        for (group, reason, kernel), count in counts.items()
    ]


def total(found: Iterable[Line]) -> tuple[int, float, float]:
    """Return launches, bytes and seconds."""
    found = list(found)
    return (
        sum(each.launches for each in found),
        sum(each.bytes for each in found),
        sum(each.seconds for each in found),
    )


def step_of(batch: int, drafts: int) -> StepSizes:
    return StepSizes(batch * (1 + drafts), batch, CONTEXT)


def show_additions(plan: LaunchPlan) -> None:
    """Print what is added to the main model's step, line by line."""
    found = lines(plan, step_of(SHOWN, 1))
    main = total(each for each in found if each.group == MAIN)
    print(f"\nbatch {SHOWN}, {2 * SHOWN} rows, context {CONTEXT}; modelled")
    print(f"{MAIN}: {main[0]} launches, {main[1] / 1e6:,.1f} MB, {main[2] * 1e6:,.1f} us")
    for group in GROUPS:
        own = [each for each in found if each.group == group]
        count, moved, seconds = total(own)
        print(
            f"{group}: {count} launches, {moved / 1e6:,.3f} MB, {seconds * 1e6:,.1f} us "
            f"({100 * seconds / main[2]:.2f} % of the main model)"
        )
        for each in own:
            print(
                f"  {each.launches} x {each.kernel:44} {each.bytes / 1e6:11.4f} MB "
                f"{each.seconds * 1e6:8.1f} us  {each.reason}"
            )
    (sample,) = [each for each in found if each.group == "sampling"]
    logits = 2 * SHOWN * VOCABULARY * ELEMENT
    print(
        f"the sampler moves {sample.bytes:,.0f} bytes; logits are {logits:,}: read "
        f"{sample.bytes / logits:.5f} times"
    )
    assert logits <= sample.bytes < 1.01 * logits


def show_batches(plans: dict[int, LaunchPlan]) -> None:
    """Print step time and tokens per second over the batch."""
    head = "".join(f"{f'tokens/s at {a}':>18}{'gain':>7}" for a in ACCEPTANCE)
    print(f"\nstep time without and with a draft, context {CONTEXT}; modelled")
    print(f"{'batch':>5}{'off, us':>11}{'on, us':>11}{'ratio':>7}{'tokens/s off':>14}{head}")
    for batch in BATCHES:
        off, on = (total(lines(plans[k], step_of(batch, k)))[2] for k in (0, 1))
        rates = "".join(
            f"{batch * (1 + a) / on:18,.0f}{(1 + a) * off / on:7.2f}" for a in ACCEPTANCE
        )
        times = f"{off * 1e6:11,.0f}{on * 1e6:11,.0f}{on / off:7.2f}"
        print(f"{batch:5}{times}{batch / off:14,.0f}{rates}")


def seconds_of(plan: LaunchPlan, step: StepSizes) -> float:
    """Return the time of all launches."""
    works = {each.kernel: each.work for each in plan.works}
    return sum(launch_cost(works[each.kernel], TARGET, step).seconds for each in plan.launches)


def show_savings(captured: CapturedModel, plan: LaunchPlan) -> None:
    """Print what choosing rows early saves, and what one launch less would save."""
    print("\nrows chosen as early as possible, and behind the layer; modelled")
    late = lowered_plan(captured, "decode", 1, early=False)
    chunks = [lowered_plan(captured, "prefill", 0, early=early) for early in (True, False)]
    for batch in (1, SHOWN, max(BATCHES)):
        step = step_of(batch, 1)
        early, before = seconds_of(plan, step), seconds_of(late, step)
        drafting = total(each for each in lines(plan, step) if each.group == "draft layer")[2]
        saved = before - early
        print(
            f"  decode, batch {batch:3}: {early * 1e6:11,.1f} us, before {before * 1e6:11,.1f}: "
            f"{saved * 1e6:9,.1f} us less ({100 * saved / (drafting + saved):.1f} % of the draft "
            f"layer, {100 * saved / before:.2f} % of the step)"
        )
    print(f"  decode launches: {len(plan.launches)}, before {len(late.launches)}")
    for rows in (1, 16, chunks[0].capacities.rows):
        early, before = (seconds_of(each, StepSizes(rows, 1, CONTEXT)) for each in chunks)
        print(
            f"  prefill, chunk of {rows:3}: {early * 1e6:11,.1f} us, before {before * 1e6:11,.1f} "
            f"({100 * (before - early) / before:.2f} % less)"
        )
    print(f"  prefill launches: {len(chunks[0].launches)}, before {len(chunks[1].launches)}")
    print("\nwhat could be saved; modelled")
    for batch in (1, SHOWN, max(BATCHES)):
        now = lines(plan, step_of(batch, 1))
        (shift,) = [each for each in now if "shift_tokens" in each.kernel]
        print(
            f"  batch {batch:3}: shift_tokens inside verify_drafts {shift.seconds * 1e6:.1f} us "
            f"({100 * shift.seconds / total(now)[2]:.3f} % of the step)"
        )


def show_packing(captured: CapturedModel) -> None:
    """Print what requests that draft less save where placeholders have no rows."""
    drafts, batch = 3, SHOWN
    rows = batch * (drafts + 1)
    before, after = (lowered_plan(captured, "decode", drafts, packed=p) for p in (False, True))
    full = seconds_of(before, StepSizes(rows, batch, CONTEXT))
    print(f"\nrows packed, batch {batch}, {drafts} drafts at most, context {CONTEXT}; modelled")
    print(f"  {rows} rows, whatever is drafted: {full * 1e6:11,.1f} us")
    for what, packed in (
        ("all draft 3", rows),
        ("half draft 3, half none", rows - batch // 2 * drafts),
        ("none draft", batch),
    ):
        now = seconds_of(after, StepSizes(rows, batch, CONTEXT, packed))
        saved = 100 * (full - now) / full
        print(f"  {packed:3} rows, {what:24}: {now * 1e6:11,.1f} us ({saved:5.2f} % less)")


def main() -> None:
    """Capture and lower both steps, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="?", type=int, default=61, help="of the main model")
    layers = parser.parse_args().layers
    start = time.perf_counter()
    captured = captured_v3(layers)
    plans = {drafts: lowered_plan(captured, "decode", drafts) for drafts in (0, 1)}
    print(
        f"DeepSeek-V3, {layers} layers and a draft layer, on {TARGET.name}: "
        f"{len(plans[0].launches)} launches without drafts, {len(plans[1].launches)} with; "
        f"compiled in {time.perf_counter() - start:.1f} s"
    )
    show_additions(plans[1])
    show_batches(plans)
    show_savings(captured, plans[1])
    show_packing(captured)


if __name__ == "__main__":
    main()
