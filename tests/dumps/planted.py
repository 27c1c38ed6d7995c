"""Passes and rules with one mistake each: mutated copies of the sources, importable by name.

``tests.dumps.planted:swapped_swiglu`` can be imported by any process, as a user's own broken pass.
"""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PASSES = "ascendfx.passes"
_EXTRA = """from ascendfx.ir.ops import Add, Negate, Subtract, Transpose
from ascendfx.passes.rebuild import rebuild
"""


@dataclass(frozen=True)
class Bug:
    """A mistake in a source file.

    Attributes:
        module: Below ``ascendfx.passes``.
        old: Text that stands in the source exactly once.
        new: What stands there instead.
        name: The pass class or the rule.
        model: The captured program on which it shows.
        nodes: Most nodes of its reduced case; more than eight where the pattern of the rule itself
            has more, or where the mistake shows through a whole layer only.
    """

    module: str
    old: str
    new: str
    name: str
    model: str = "v3_halfrope"
    nodes: int = 8


BUGS: dict[str, Bug] = {
    "norm_eps": Bug("rules.rms_norm", "RmsNorm(h.eps)", "RmsNorm(10 * h.eps)", "RULE"),
    "swiglu_swapped": Bug("rules.swiglu", "Swiglu(), gate, up", "Swiglu(), up, gate", "RULE"),
    "rotary_half_tables": Bug(
        "rules.rotary",
        "Rotary(interleaved_in=False, interleaved_out=False), x, cos, sin",
        "Rotary(interleaved_in=False, interleaved_out=False), x, sin, cos",
        "HALF",
        "llama_f32",
        nodes=9,
    ),
    "rotary_layout": Bug(
        "rules.rotary",
        "b.add(Rotary(interleaved_in=True, interleaved_out=False)",
        "b.add(Rotary(interleaved_in=False, interleaved_out=False)",
        "INTERLEAVED_TO_HALF",
        "v3yarn_f32",
        nodes=9,
    ),
    "rotary_pairs": Bug(
        "rules.rotary_pairs", "wide, cos, sin)", "wide, sin, cos)", "RULE", "v2_f32", 15
    ),
    "attention_scale": Bug(
        "rules.attention", "scale=float(scale)", "scale=1.01 * float(scale)", "MASKED_ATTENTION"
    ),
    "parts_scale": Bug(
        "rules.attention_parts",
        "op = Attention(parts=2, scale=h.scale,",
        "op = Attention(parts=2, scale=2 * h.scale,",
        "ATTENTION_PARTS",
    ),
    "ends_summed_twice": Bug(
        "rules.dispatch_experts",
        "return b.add_multi(DispatchExperts(h.experts), ids)[2]",
        "return b.add(CumulativeSum(0), b.add_multi(DispatchExperts(h.experts), ids)[2])",
        "ENDS",
    ),
    "rows_for_places": Bug(
        "rules.dispatch_experts",
        "rows = b.add_multi(DispatchExperts(h.experts), ids)[0]",
        "rows = b.add_multi(DispatchExperts(h.experts), ids)[1]",
        "SOURCE_ROWS",
    ),
    "places_for_rows": Bug(
        "rules.dispatch_experts",
        "place = b.add_multi(DispatchExperts(h.experts), ids)[1]",
        "place = b.add_multi(DispatchExperts(h.experts), ids)[0]",
        "COMBINE",
        nodes=15,
    ),
    "route_scale": Bug(
        "rules.route_topk", "float(h.scale)", "2 * float(h.scale)", "BIASED", nodes=15
    ),
    "route_normalize": Bug(
        "rules.route_topk",
        "        normalize=h.normalize,",
        "        normalize=not h.normalize,",
        "UNBIASED",
        "v2_f32",
        nodes=12,
    ),
    "absorbed_query_negated": Bug(
        "rules.absorb_key_projection",
        "absorbed = b.add(HeadLinear(), q,",
        "absorbed = b.add(HeadLinear(), b.add(Negate(), q),",
        "ABSORB_KEY_PROJECTION_OF_TWO_PARTS",
    ),
    "absorbed_value_negated": Bug(
        "rules.absorb_value_projection",
        "_attend(b, h, latent, others, parts), w)",
        "b.add(Negate(), _attend(b, h, latent, others, parts)), w)",
        "ABSORB_VALUE_PROJECTION_OF_TWO_PARTS",
    ),
    "slice_off_by_one": Bug(
        "rules.slice_head_projection",
        "Slice(1, h.start, h.stop), w",
        "Slice(1, 0, h.stop - h.start), w",
        "RULE",
    ),
    "heads_transposed": Bug(
        "rules.split_projection_into_heads",
        "b.add(Reshape((h.h, h.n, h.k)), w))",
        "b.add(Transpose((0, 2, 1)), b.add(Reshape((h.h, h.k, h.n)), w)))",
        "RULE",
    ),
    "tokens_negated": Bug(
        "rules.reshape_head_projection",
        "Reshape((h.q, h.s, 1, h.k)), x)",
        "Reshape((h.q, h.s, 1, h.k)), b.add(Negate(), x))",
        "RULE",
    ),
    "square_is_neutral": Bug(
        "simplifications.arithmetic", "Power: (1, False)", "Power: (2, False)", "Simplify"
    ),
    "half_doubled": Bug(
        "narrow_repeated_inputs",
        "builder.add(Concat(axis), half, half)",
        "builder.add(Concat(axis), half, builder.add(Add(), half, half))",
        "NarrowRepeatedInputs",
    ),
    "mask_forgotten": Bug(
        "recognise_causal_mask",
        "causal=True, masked",
        "causal=False, masked",
        "RecogniseCausalMask",
    ),
    "rotary_doubled": Bug(
        "hoist_transposes",
        "return b.add(op, *(transposed(b, x, permutation) for x in operands))\n\n\ndef _reshape(",
        "y = b.add(op, *(transposed(b, x, permutation) for x in operands))\n"
        "    return b.add(Add(), y, y)\n\n\ndef _reshape(",
        "HoistTransposes",
    ),
    "heads_negated": Bug(
        "share_key_heads",
        "b.add(Reshape((batch, context, after[2], size)), source)",
        "b.add(Reshape((batch, context, after[2], size)), b.add(Negate(), source))",
        "ShareKeyHeads",
        "llama_f32",
    ),
    "operands_ignored": Bug(
        "share_common",
        "key = (node.op, operands)",
        "key = (node.op, operands[:1], node.types)",
        "ShareCommon",
    ),
    "sums_dropped": Bug(
        "drop_unused",
        "dropped = len(graph.nodes)",
        "kept = rebuild(kept, lambda b, p, n, o: o[:1] if isinstance(n.op, Add) and "
        "b.type_of(o[0]) == n.types[0] else None)\n        dropped = len(graph.nodes)",
        "DropUnused",
    ),
    "cached_scale": Bug(
        "derive_incremental_form",
        "RaggedAttention(op.parts, op.scale)",
        "RaggedAttention(op.parts, 2 * op.scale)",
        "DeriveIncrementalForm",
    ),
    "slots_for_positions": Bug(
        "derive_incremental_form",
        'positions, kind = self._controls["positions"], node.types[0]',
        'positions, kind = self._controls["slots"], node.types[0]',
        "DeriveIncrementalForm",
        nodes=16,
    ),
    "folded_negated": Bug(
        "fold_weights",
        "return (builder.leaf(Param(names[value], graph.type_of(value))),)",
        "whole = builder.leaf(Param(names[value], graph.type_of(value)))\n"
        "            return (builder.add(Negate(), whole),)",
        "FoldWeights",
    ),
}


def __getattr__(name: str) -> Any:
    """Make a broken pass or rule when it is first asked for."""
    if name not in BUGS:
        raise AttributeError(name)
    bug = BUGS[name]
    made = simplify_with(bug) if bug.name == "Simplify" else mutated(bug)[bug.name]
    if isinstance(made, type):
        made.__module__, made.__qualname__ = __name__, name
    globals()[name] = made
    return made


def mutated(bug: Bug) -> dict[str, Any]:
    """Return what the source file defines that has the mistake."""
    spec = find_spec(f"{_PASSES}.{bug.module}")
    assert spec is not None and spec.origin is not None  # noqa: PT018
    source = Path(spec.origin).read_text(encoding="utf-8")
    assert source.count(bug.old) == 1, (
        f"{bug.module}: {bug.old!r} stands {source.count(bug.old)} times"
    )
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(_EXTRA + source.replace(bug.old, bug.new), f"<{bug.module}>", "exec"), names)  # noqa: S102
    return names


def simplify_with(bug: Bug) -> Any:
    """Return a `Simplify` that takes one table of simplifications from the mutated source."""
    tables = mutated(bug)["TABLE"]
    package = mutated(Bug("simplify", "class Simplify", "class Simplify", "Simplify"))
    package["SIMPLIFICATIONS"] = dict(sys.modules[f"{_PASSES}.simplifications"].SIMPLIFICATIONS)
    for op, found in tables.items():
        package["SIMPLIFICATIONS"][op] = (*found, *package["SIMPLIFICATIONS"][op])
    return package["Simplify"]
