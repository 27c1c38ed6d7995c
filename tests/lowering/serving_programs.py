"""Serving programs of a DeepSeek-like model at any size, as the passes would leave them."""

from dataclasses import dataclass

from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import (
    Add,
    Argmax,
    CacheRead,
    CacheWrite,
    Call,
    Cast,
    CombineExperts,
    Concat,
    Cos,
    DispatchExperts,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Input,
    Linear,
    Multiply,
    Param,
    RaggedAttention,
    Reshape,
    RmsNorm,
    Rotary,
    RouteTopk,
    Sin,
    Slice,
    Swiglu,
    Transpose,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS, REQUESTS, CONTEXT = named_size("rows"), named_size("requests"), named_size("context")
BLOCKS, TABLE = named_size("blocks"), named_size("table_blocks")


@dataclass(frozen=True)
class Shape:
    dtype: DType = DType.F32
    hidden: int = 64
    heads: int = 2
    nope: int = 32
    rope: int = 16
    value: int = 32
    q_rank: int = 48
    kv_rank: int = 64
    dense_layers: int = 1
    moe_layers: int = 1
    dense_width: int = 96
    experts: int = 8
    groups: int = 2
    top_k: int = 2
    expert_width: int = 32
    vocabulary: int = 96
    expanded: bool = False

    @property
    def scale(self):
        return (self.nope + self.rope) ** -0.5


V3 = Shape(
    dtype=DType.BF16,
    hidden=7168,
    heads=128,
    nope=128,
    rope=64,
    value=128,
    q_rank=1536,
    kv_rank=512,
    dense_layers=3,
    moe_layers=58,
    dense_width=18432,
    experts=256,
    groups=8,
    top_k=8,
    expert_width=2048,
    vocabulary=129280,
)


def serving_program(shape, name="decode"):
    """Return entry, dense layer and MoE layer with their weight recipes."""
    dense, moe = _layer(shape, "dense_layer", moe=False), _layer(shape, "moe_layer", moe=True)
    recipes = {}
    for graph in (dense, moe):
        recipes |= {(graph.name, key): recipe for key, recipe in _recipes(shape).items()}
    return Program((_entry(shape, name, dense, moe), dense, moe), recipes).pruned()


class _Builder(GraphBuilder):
    def __init__(self, name, shape):
        super().__init__(name)
        self.shape = shape

    def typed(self, *shape, dtype=None):
        return TensorType(dtype or self.shape.dtype, shape)

    def input(self, name, *shape, dtype=None):
        return self.add(Input(name, self.typed(*shape, dtype=dtype)))

    def param(self, name, *shape, dtype=None):
        return self.add(Param(name, self.typed(*shape, dtype=dtype)))

    def linear(self, x, name, n, k):
        return self.add(Linear(), x, self.param(name, n, k))

    def norm(self, x, name, k):
        return self.add(RmsNorm(1e-6), x, self.param(name, k))

    def part(self, x, axis, start, stop):
        return self.add(Slice(axis, start, stop), x)

    def reshape(self, x, *shape):
        return self.add(Reshape(shape), x)


def _inputs(b):
    ids = {"dtype": DType.I32}
    names = ("slots", "positions", "row_request")
    return [
        *(b.input(name, ROWS, **ids) for name in names),
        b.input("block_table", REQUESTS, TABLE, **ids),
    ]


def _layer(s, name, *, moe):
    b = _Builder(name, s)
    hidden = b.input("hidden", ROWS, s.hidden)
    cos, sin = b.input("cos", ROWS, 1, s.rope // 2), b.input("sin", ROWS, 1, s.rope // 2)
    slots, positions, row_request, table = _inputs(b)
    caches = [
        b.input("latent_cache", BLOCKS, BLOCK_TOKENS, s.kv_rank),
        b.input("rope_cache", BLOCKS, BLOCK_TOKENS, s.rope),
    ]
    normed = b.norm(hidden, "input_layernorm.weight", s.hidden)
    q = b.linear(normed, "self_attn.q_a_proj.weight", s.q_rank, s.hidden)
    q = b.norm(q, "self_attn.q_a_layernorm.weight", s.q_rank)
    q = b.linear(q, "self_attn.q_b_proj.weight", s.heads * (s.nope + s.rope), s.q_rank)
    q = b.reshape(q, ROWS, s.heads, s.nope + s.rope)
    q_nope, q_rope = b.part(q, 2, 0, s.nope), b.part(q, 2, s.nope, s.nope + s.rope)
    q_rope = b.add(Rotary(interleaved_in=True, interleaved_out=False), q_rope, cos, sin)
    kv = b.linear(normed, "self_attn.kv_a_proj.weight", s.kv_rank + s.rope, s.hidden)
    latent = b.norm(b.part(kv, 1, 0, s.kv_rank), "self_attn.kv_a_layernorm.weight", s.kv_rank)
    k_rope = b.reshape(b.part(kv, 1, s.kv_rank, s.kv_rank + s.rope), ROWS, 1, s.rope)
    k_rope = b.add(Rotary(interleaved_in=True, interleaved_out=False), k_rope, cos, sin)
    caches = [
        b.add(CacheWrite(), caches[0], slots, latent),
        b.add(CacheWrite(), caches[1], slots, b.reshape(k_rope, ROWS, s.rope)),
    ]
    read = [b.add(CacheRead(CONTEXT), cache, table) for cache in caches]
    k_rope = b.reshape(read[1], REQUESTS, CONTEXT, 1, s.rope)
    attend = RaggedAttention(2, s.scale)
    if s.expanded:
        width = s.nope + s.value
        kv = b.linear(read[0], "self_attn.kv_b_proj.weight", s.heads * width, s.kv_rank)
        kv = b.reshape(kv, REQUESTS, CONTEXT, s.heads, width)
        k_nope, v = b.part(kv, 3, 0, s.nope), b.part(kv, 3, s.nope, width)
        out = b.add(attend, q_nope, q_rope, k_nope, k_rope, v, positions, row_request)
    else:
        up = b.param("key_up", s.heads, s.kv_rank, s.nope)
        q_nope = b.add(HeadLinear(), q_nope, up)
        keys = b.reshape(read[0], REQUESTS, CONTEXT, 1, s.kv_rank)
        out = b.add(attend, q_nope, q_rope, keys, k_rope, keys, positions, row_request)
        out = b.add(HeadLinear(), out, b.param("value_up", s.heads, s.value, s.kv_rank))
    out = b.reshape(out, ROWS, s.heads * s.value)
    out = b.linear(out, "self_attn.o_proj.weight", s.hidden, s.heads * s.value)
    hidden = b.add(Add(), hidden, out)
    normed = b.norm(hidden, "post_attention_layernorm.weight", s.hidden)
    out = _experts(b, s, normed) if moe else _mlp(b, s, normed, "mlp.", s.dense_width)
    return b.build(b.add(Add(), hidden, out), *caches)


def _mlp(b, s, x, prefix, width):
    both = b.linear(x, f"{prefix}gate_up", 2 * width, s.hidden)
    gated = b.add(Swiglu(), b.part(both, 1, 0, width), b.part(both, 1, width, 2 * width))
    return b.linear(gated, f"{prefix}down_proj.weight", s.hidden, width)


def _experts(b, s, x):
    wide = x if s.dtype is DType.F32 else b.add(Cast(DType.F32), x)
    gate = b.param("mlp.gate.weight", s.experts, s.hidden, dtype=DType.F32)
    logits = b.add(Linear(), wide, gate)
    bias = b.param("mlp.gate.e_score_correction_bias", s.experts, dtype=DType.F32)
    route = RouteTopk(
        k=s.top_k,
        scoring="sigmoid",
        biased=True,
        groups=s.groups,
        topk_groups=max(1, s.groups // 2),
        group_score="top2_sum",
        masked_value=0.0,
        normalize=True,
        scale=2.5,
    )
    weights, ids = b.add_multi(route, logits, bias)
    source, place, ends = b.add_multi(DispatchExperts(s.experts), ids)
    rows = b.add(GatherRows(), x, source)
    width = s.expert_width
    both = b.add(GroupedLinear(), rows, b.param("gate_ups", s.experts, 2 * width, s.hidden), ends)
    gated = b.add(Swiglu(), b.part(both, 1, 0, width), b.part(both, 1, width, 2 * width))
    y = b.add(GroupedLinear(), gated, b.param("downs", s.experts, s.hidden, width), ends)
    routed = b.add(CombineExperts(), y, place, weights)
    return b.add(Add(), routed, _mlp(b, s, x, "mlp.shared_experts.", width))


def _recipes(s):
    width = s.nope + s.value

    def kv_b(b):
        weight = b.param("self_attn.kv_b_proj.weight", s.heads * width, s.kv_rank)
        return b.reshape(weight, s.heads, width, s.kv_rank)

    def key_up(b):
        return b.add(Transpose((0, 2, 1)), b.part(kv_b(b), 1, 0, s.nope))

    def value_up(b):
        return b.part(kv_b(b), 1, s.nope, width)

    def gate_up(prefix, inner):
        def make(b):
            names = (f"{prefix}gate_proj.weight", f"{prefix}up_proj.weight")
            return b.add(Concat(0), *(b.param(name, inner, s.hidden) for name in names))

        return make

    def stack(names, *shape):
        def make(b):
            parts = []
            for expert in range(s.experts):
                each = [b.param(f"mlp.experts.{expert}.{name}", *shape) for name in names]
                joined = b.add(Concat(0), *each) if len(each) > 1 else each[0]
                parts.append(b.reshape(joined, 1, len(names) * shape[0], shape[1]))
            return b.add(Concat(0), *parts)

        return make

    makers = {
        "key_up": key_up,
        "value_up": value_up,
        "mlp.gate_up": gate_up("mlp.", s.dense_width),
        "mlp.shared_experts.gate_up": gate_up("mlp.shared_experts.", s.expert_width),
        "gate_ups": stack(("gate_proj.weight", "up_proj.weight"), s.expert_width, s.hidden),
        "downs": stack(("down_proj.weight",), s.hidden, s.expert_width),
    }
    recipes = {}
    for name, make in makers.items():
        b = _Builder(name, s)
        recipes[name] = b.build(make(b))
    return recipes


def _keys(s, graph, layer):
    names = dict.fromkeys(graph.nodes[v.node].op.name for v in graph.params)
    recipes = _recipes(s)
    for name in list(names):
        if name in recipes:
            del names[name]
            names |= dict.fromkeys(recipes[name].op_of(v).name for v in recipes[name].params)
    return tuple((name, f"model.layers.{layer}.{name}") for name in names)


def _entry(s, name, dense, moe):
    b = _Builder(name, s)
    ids = {"dtype": DType.I32}
    tokens, positions, slots, row_request = (
        b.input(each, ROWS, **ids) for each in ("token_ids", "positions", "slots", "row_request")
    )
    table = b.input("block_table", REQUESTS, TABLE, **ids)
    logit_rows = b.input("logit_rows", REQUESTS, **ids)
    layers = [dense] * s.dense_layers + [moe] * s.moe_layers
    caches = [
        [
            b.input(f"cache.{i}.{j}", BLOCKS, BLOCK_TOKENS, d)
            for j, d in enumerate((s.kv_rank, s.rope))
        ]
        for i in range(len(layers))
    ]
    embedding = b.param("model.embed_tokens.weight", s.vocabulary, s.hidden)
    hidden = b.add(GatherRows(), embedding, tokens)
    inv_freq = b.param("model.rotary_emb.inv_freq", s.rope // 2, dtype=DType.F32)
    angle = b.reshape(b.add(Cast(DType.F32), positions), ROWS, 1)
    angle = b.add(Multiply(), angle, b.reshape(inv_freq, 1, s.rope // 2))
    tables = []
    for op in (Cos(), Sin()):
        value = b.add(op, angle)
        value = value if s.dtype is DType.F32 else b.add(Cast(s.dtype), value)
        tables.append(b.reshape(value, ROWS, 1, s.rope // 2))
    new = []
    for i, (graph, own) in enumerate(zip(layers, caches, strict=True)):
        types = (b.type_of(hidden), *map(b.type_of, own))
        call = Call(graph.name, types, _keys(s, graph, i))
        arguments = (hidden, *tables, slots, positions, row_request, table, *own)
        hidden, *rest = b.add_multi(call, *arguments)
        new += rest
    hidden = b.add(GatherRows(), hidden, logit_rows)
    hidden = b.norm(hidden, "model.norm.weight", s.hidden)
    logits = b.linear(hidden, "lm_head.weight", s.vocabulary, s.hidden)
    return b.build(b.add(Argmax(), logits), logits, *new)
