"""The yardstick: a layer of DeepSeek's own inference code in its absorbed form, written by hand.

Source: deepseek-ai/DeepSeek-V3, ``inference/model.py``: ``MLA.forward`` with ``attn_impl ==
"absorb"``, ``MLP.forward`` (``w1``, ``w3`` and ``w2`` apart), ``Gate.forward`` and ``MoE.forward``.
Its 8-bit weights are taken as bf16, like the model that is searched, and its dense caches as paged
ones. What a layer needs is also stated as formulas, by hand.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.work import StepSizes, expected_distinct
from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.size import Dim, named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS, REQUESTS, CONTEXT = map(named_size, ("rows", "requests", "context"))
BLOCKS, TABLE = map(named_size, ("blocks", "table_blocks"))
_WIDTH = 2  # bytes of bf16


@dataclass(frozen=True)
class Sizes:
    """``ModelArgs`` of DeepSeek-V3 (``inference/configs/config_671B.json``)."""

    dim: int = 7168
    heads: int = 128
    q_rank: int = 1536
    rank: int = 512
    nope: int = 128
    rope: int = 64
    value: int = 128
    inter: int = 18432
    experts: int = 256
    chosen: int = 8
    expert_inter: int = 2048


V3 = Sizes()


class _Layer(GraphBuilder):
    def param(self, name: str, *shape: int, dtype: DType = DType.BF16) -> Value:
        return self.add(Param(name, TensorType(dtype, shape)))

    def input(self, name: str, *shape: Dim, dtype: DType = DType.BF16) -> Value:
        return self.add(Input(name, TensorType(dtype, shape)))

    def linear(self, name: str, x: Value, n: int, k: int) -> Value:
        return self.add(ops.Linear(), x, self.param(name, n, k))

    def norm(self, name: str, x: Value, k: int) -> Value:
        return self.add(ops.RmsNorm(1e-6), x, self.param(name, k))

    def part(self, x: Value, axis: int, start: int, stop: int) -> Value:
        return self.add(ops.Slice(axis, start, stop), x)

    def reshape(self, x: Value, *shape: Dim) -> Value:
        return self.add(ops.Reshape(shape), x)


def reference_layer(s: Sizes = V3, *, moe: bool) -> Graph:
    """Return ``Block.forward`` of one layer."""
    b = _Layer("layer_1" if moe else "layer_0")
    x = b.input("x", ROWS, s.dim)
    tables = [b.input(each, ROWS, 1, s.rope // 2) for each in ("cos", "sin")]
    positions, slots, owner = (
        b.input(each, ROWS, dtype=DType.I32) for each in ("positions", "slots", "row_request")
    )
    table = b.input("block_table", REQUESTS, TABLE, dtype=DType.I32)
    kv_cache = b.input("kv_cache", BLOCKS, 128, s.rank)
    pe_cache = b.input("pe_cache", BLOCKS, 128, 1, s.rope)

    h = b.norm("attn_norm", x, s.dim)
    q = b.linear("wq_b", b.norm("q_norm", b.linear("wq_a", h, s.q_rank, s.dim), s.q_rank),
                 s.heads * (s.nope + s.rope), s.q_rank)  # fmt: skip
    q = b.reshape(q, ROWS, s.heads, s.nope + s.rope)
    rotate = ops.Rotary(interleaved_in=True, interleaved_out=True)
    q_pe = b.add(rotate, b.part(q, 2, s.nope, s.nope + s.rope), *tables)
    kv = b.linear("wkv_a", h, s.rank + s.rope, s.dim)
    k_pe = b.reshape(b.part(kv, 1, s.rank, s.rank + s.rope), ROWS, 1, s.rope)
    k_pe = b.add(rotate, k_pe, *tables)
    kv = b.norm("kv_norm", b.part(kv, 1, 0, s.rank), s.rank)
    kv_cache = b.add(ops.CacheWrite(), kv_cache, slots, kv)
    pe_cache = b.add(ops.CacheWrite(), pe_cache, slots, k_pe)

    wkv_b = b.reshape(b.param("wkv_b", s.heads * (s.nope + s.value), s.rank),
                      s.heads, s.nope + s.value, s.rank)  # fmt: skip
    up = b.add(ops.Transpose((0, 2, 1)), b.part(wkv_b, 1, 0, s.nope))
    q_nope = b.add(ops.HeadLinear(), b.part(q, 2, 0, s.nope), up)
    latent = b.reshape(b.add(ops.CacheRead(CONTEXT), kv_cache, table), REQUESTS, CONTEXT, 1, s.rank)
    keys = b.add(ops.CacheRead(CONTEXT), pe_cache, table)
    scale = (s.nope + s.rope) ** -0.5
    attend = ops.RaggedAttention(2, scale)
    y = b.add(attend, q_nope, q_pe, latent, keys, latent, positions, owner)
    y = b.add(ops.HeadLinear(), y, b.part(wkv_b, 1, s.nope, s.nope + s.value))
    y = b.linear("wo", b.reshape(y, ROWS, s.heads * s.value), s.dim, s.heads * s.value)
    x = b.add(ops.Add(), x, y)
    h = b.norm("ffn_norm", x, s.dim)
    y = _experts(b, s, h) if moe else _mlp(b, s, h, "ffn", s.inter)
    return b.build(b.add(ops.Add(), x, y), kv_cache, pe_cache)


def _mlp(b: _Layer, s: Sizes, h: Value, name: str, inter: int) -> Value:
    gate, up = b.linear(f"{name}.w1", h, inter, s.dim), b.linear(f"{name}.w3", h, inter, s.dim)
    return b.linear(f"{name}.w2", b.add(ops.Swiglu(), gate, up), s.dim, inter)


def _experts(b: _Layer, s: Sizes, h: Value) -> Value:
    gate = b.param("gate", s.experts, s.dim, dtype=DType.F32)
    scores = b.add(ops.Linear(), b.add(ops.Cast(DType.F32), h), gate)
    route = ops.RouteTopk(
        k=s.chosen, scoring="sigmoid", biased=True, groups=8, topk_groups=4,
        group_score="top2_sum", masked_value=float("-inf"), normalize=True, scale=2.5,
    )  # fmt: skip
    weights, ids = b.add_multi(route, scores, b.param("bias", s.experts, dtype=DType.F32))
    source, place, ends = b.add_multi(ops.DispatchExperts(s.experts), ids)
    rows = b.add(ops.GatherRows(), h, source)
    inner = (s.experts, s.expert_inter, s.dim)
    gated = b.add(
        ops.Swiglu(),
        *(
            b.add(ops.GroupedLinear(), rows, b.param(f"experts.{w}", *inner), ends)
            for w in ("w1", "w3")
        ),
    )
    down = b.param("experts.w2", s.experts, s.dim, s.expert_inter)
    y = b.add(ops.GroupedLinear(), gated, down, ends)
    routed = b.add(ops.CombineExperts(), y, place, weights)
    return b.add(ops.Add(), routed, _mlp(b, s, h, "shared", s.expert_inter))


def attention_weights(s: Sizes = V3) -> int:
    """Return the weights of an attention: every projection is read once per step."""
    queries = s.dim * s.q_rank + s.q_rank * s.heads * (s.nope + s.rope)
    latents = s.dim * (s.rank + s.rope) + s.rank * s.heads * (s.nope + s.value)
    return queries + latents + s.heads * s.value * s.dim


def needed_bytes(step: StepSizes, s: Sizes = V3, *, moe: bool) -> float:
    """Return the bytes of weights and caches that a layer must read, whatever its form."""
    cache = step.requests * step.context * (s.rank + s.rope)
    if not moe:
        return _WIDTH * (attention_weights(s) + cache + 3 * s.dim * s.inter)
    each = 3 * s.dim * s.expert_inter
    read = 1 + expected_distinct(s.experts, s.chosen, step.rows)
    router = 4 * s.dim * s.experts
    return _WIDTH * (attention_weights(s) + cache + read * each) + router


def needed_products(step: StepSizes, s: Sizes = V3, *, moe: bool) -> int:
    """Return the multiply-adds of the absorbed form."""
    scores = step.visible * s.heads * (s.rank + s.rope + s.rank)
    mlp = 3 * s.dim * s.inter
    if moe:
        mlp = (s.chosen + 1) * 3 * s.dim * s.expert_inter + s.dim * s.experts
    return scores + step.rows * (attention_weights(s) + mlp)
