"""One function with projections of codes instead of floats."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Call,
    Cast,
    GatherRows,
    GroupedLinear,
    Linear,
    Multiply,
    Param,
    RowGroups,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.rebuild import rebuild
from ascendfx.quant_passes.insertion.codes_of_input import (
    Codes,
    joined_digits,
    quantize_rows,
    source_of_pairs,
)
from ascendfx.quant_passes.insertion.codes_of_weight import (
    codes_name,
    codes_recipe,
    codes_type,
    scale_name,
    scale_recipe,
    scale_type,
)
from ascendfx.quant_passes.insertion.site_form import SiteForm
from ascendfx.quant_passes.insertion.sites import reads_cache, weight_of


@dataclass(frozen=True, slots=True)
class QuantizedFunction:
    """What became of a function.

    Attributes:
        graph: The function.
        recipes: How codes and scales are made, by parameter; none for those that are delivered.
        products: How many projections multiply codes.
        inputs: How many values were quantized for them.
    """

    graph: Graph
    recipes: Mapping[str, Graph]
    products: int
    inputs: int


def quantize_function(
    graph: Graph, name: str, forms: Mapping[str, SiteForm], calls: Mapping[Call, Call]
) -> QuantizedFunction:
    """Return a copy of a function in which some projections multiply codes.

    ``y = x W^T`` becomes ``y = (c D^T) s t`` with codes ``c`` of ``x``, a scale ``s`` for each row,
    codes ``D`` of ``W`` and a scale ``t`` for each output channel. By four-bit codes the digits of
    ``c`` are multiplied, and the results joined. Values that several projections
    read are quantized once, rows of experts before they are handed out.

    Args:
        graph: The function.
        name: What the copy is called.
        forms: The form of each parameter by which it projects; others stay as they are.
        calls: What stands for each call in it.

    Raises:
        GraphError: A projection of cached rows is to be quantized.
    """
    copy = _Copy(graph, forms, calls)
    made = DropUnused().run_graph(rebuild(graph, copy.emit)).graph
    return QuantizedFunction(replace(made, name=name), copy.recipes, copy.products, copy.inputs)


@dataclass
class _Copy:
    graph: Graph
    forms: Mapping[str, SiteForm]
    calls: Mapping[Call, Call]
    recipes: dict[str, Graph] = field(default_factory=dict[str, Graph])
    products: int = 0
    inputs: int = 0

    def __post_init__(self) -> None:
        self._codes: dict[tuple[Value, bool], Codes] = {}
        self._groups: dict[Value, Value] = {}
        self._moved: dict[Value, Value] = {}

    def emit(
        self, builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        """Return what a node becomes; see `rebuild`."""
        self._moved.update(zip(node.operands, operands, strict=True))
        if isinstance(node.op, Call):
            return builder.add_multi(self.calls.get(node.op, node.op), *operands)
        weight = weight_of(self.graph, node)
        if weight is None or weight.name not in self.forms:
            return None
        if reads_cache(self.graph, node.operands[0]):
            raise GraphError(
                "site-reads-cache",
                f"`{weight.name}` of @{self.graph.name} projects rows of the cache: decode absorbs "
                "it into projections of the query, which needs its numbers",
                node.location,
                hint=f'let it keep its format by a line before: SiteLine("*{weight.name}", None)',
            )
        return (self._product(builder, node, operands, weight),)

    def _product(
        self, builder: GraphBuilder, node: Node, operands: tuple[Value, ...], weight: Param
    ) -> Value:
        self.products += 1
        pairs = self.forms[weight.name].lies_in_pairs(weight.type)
        x = self._quantized(builder, node.operands[0], digits=pairs)
        codes, scale = self._weight(builder, weight)
        total = builder.add(_of_codes(node.op, pairs=pairs), x.codes, codes, *operands[2:])
        if isinstance(node.op, GroupedLinear):
            groups = self._groups_of(builder, operands[2], builder.type_of(total))
            scale = builder.add(GatherRows(), scale, groups)
        sums = joined_digits(builder, total) if pairs else builder.add(Cast(DType.F32), total)
        product = builder.add(Multiply(), sums, x.scale)
        product = builder.add(Multiply(), product, scale)
        dtype = node.types[0].dtype
        return product if dtype is DType.F32 else builder.add(Cast(dtype), product)

    def _quantized(self, builder: GraphBuilder, value: Value, *, digits: bool) -> Codes:
        """Return the codes of a value of the old graph, made at its first use."""
        key = value, digits
        if key not in self._codes:
            pairs = source_of_pairs(self.graph, value)
            if pairs:
                rows = self._quantized(builder, pairs[0], digits=digits)
                ids = self._moved[pairs[1]]
                taken = (builder.add(GatherRows(), each, ids) for each in (rows.codes, rows.scale))
                self._codes[key] = Codes(*taken)
            else:
                self.inputs += 1
                self._codes[key] = quantize_rows(builder, self._moved[value], digits=digits)
        return self._codes[key]

    def _weight(self, builder: GraphBuilder, weight: Param) -> tuple[Value, Value]:
        form, kind = self.forms[weight.name], weight.type
        pairs = form.lies_in_pairs(kind)
        codes = Param(codes_name(weight.name), codes_type(kind, pairs=pairs))
        scale = Param(scale_name(weight.name), scale_type(kind))
        if not form.delivered:
            self.recipes[codes.name] = codes_recipe(weight.name, kind, form.largest, pairs=pairs)
            self.recipes[scale.name] = scale_recipe(weight.name, kind, form.largest)
        return builder.leaf(codes), builder.leaf(scale)

    def _groups_of(self, builder: GraphBuilder, ends: Value, total: TensorType) -> Value:
        if ends not in self._groups:
            self._groups[ends] = builder.add(RowGroups(total.shape[0]), ends)
        return self._groups[ends]


def _of_codes(op: Op, *, pairs: bool) -> Op:
    return replace(op, pairs=True) if pairs and isinstance(op, Linear | GroupedLinear) else op
