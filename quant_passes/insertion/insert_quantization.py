"""The pass that makes projections of a serving form multiply codes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.insertion.codes_of_weight import codes_name, scale_name
from ascendfx.quant_passes.insertion.quantize_function import quantize_function
from ascendfx.quant_passes.insertion.site_form import (
    HALF_BYTE,
    SiteForm,
    SiteLine,
    form_of,
)
from ascendfx.quant_passes.insertion.sites import (
    PRODUCTS,
    key_of,
    parameters_of,
    sites_of,
    weight_of,
)
from ascendfx.quant_passes.migration.transform_name import is_migrated

_Forms = tuple[tuple[str, SiteForm], ...]
"""Parameters of a function that multiply codes, and how; in the order in which they are read."""


@dataclass(frozen=True, slots=True)
class InsertQuantization(ProgramPass):
    r"""Lets projections by weights of the checkpoint multiply codes in ``i8``, or in ``i4x2``.

    The first line whose pattern fits the checkpoint key of a weight says what becomes of it. A
    function whose calls are told different things is split. Inputs are quantized token by token,
    weights by output channel; sums are exact, and what is added to what they make is as before.

    Fidelity: lossy. With ``s`` the scale of a row and ``t`` that of a channel, a code is at most
    half a step away from its number, and so for ``k`` terms

    .. math:: |y - y'| \le \tfrac t2 \sum_k |x_k| + \tfrac s2 \sum_k |w_k| + \tfrac{k s t}4

    up to roundings of the result in float32; ``s`` is the largest number of the row over 127, over
    119 where weights have four bits. Delivered codes may be farther away.

    Attributes:
        lines: Asked in order; a key that none fits keeps its format.
    """

    name: ClassVar[str] = "insert-quantization"
    fidelity: ClassVar[Fidelity] = Fidelity.LOSSY

    lines: tuple[SiteLine, ...]

    def run(self, program: Program) -> PassResult:
        """Transform every function that has a site.

        Raises:
            GraphError: A projection of cached rows is to be quantized, or a sum of codes could
                leave int32; codes are delivered of a weight that has transforms now.
        """
        rewriter = _Rewriter(program, self.lines)
        graphs = rewriter.graphs()
        remarks = tuple(_remarks(program, self.lines))
        if not rewriter.statistics:
            return PassResult(program, {}, remarks)
        changed = Program(graphs, rewriter.recipes).pruned()
        return PassResult(changed, rewriter.statistics, remarks)


@dataclass
class _Rewriter:
    program: Program
    lines: tuple[SiteLine, ...]
    recipes: dict[tuple[str, str], Graph] = field(default_factory=dict[tuple[str, str], Graph])
    statistics: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.recipes.update(self.program.recipes)
        self._params = {g.name: tuple(parameters_of(self.program, g)) for g in self.program.graphs}
        self._names = self._variants()

    def graphs(self) -> tuple[Graph, ...]:
        """Return the functions, the entry first, and note their recipes."""
        main = self.program.main
        names = self._params[main.name]
        entry = {name: form for name in names if (form := self._form(None, name))}
        made = [self._made(main, main.name, entry)]
        for (callee, forms), name in self._names.items():
            made.append(self._made(self.program.by_name[callee], name, dict(forms)))
        return tuple(made)

    def _variants(self) -> dict[tuple[str, _Forms], str]:
        """Return a name for each function and each choice that its calls make."""
        names: dict[tuple[str, _Forms], str] = {}
        taken = set(self.program.by_name)
        first: set[str] = set()
        for call in _calls(self.program):
            variant = call.callee, self._forms(call)
            if variant in names:
                continue
            name = call.callee
            if name in first:
                numbers = (f"{name}_form{i}" for i in range(1, len(taken) + 2))
                name = next(each for each in numbers if each not in taken)
                self._count("functions split")
            first.add(call.callee)
            taken.add(name)
            names[variant] = name
        return names

    def _forms(self, call: Call) -> _Forms:
        pairs = ((name, self._form(call, name)) for name in self._params[call.callee])
        return tuple((name, form) for name, form in pairs if form is not None)

    def _form(self, call: Call | None, name: str) -> SiteForm | None:
        key = key_of(call, name)
        form = form_of(self.lines, key)
        if form is not None and form.delivered and is_migrated(name):
            raise GraphError(
                "codes-before-migration",
                f"the codes of `{key}` were made of the weight without transforms",
                hint="quantize with the transforms, or compile without `migration`",
            )
        return form

    def _made(self, graph: Graph, name: str, forms: Mapping[str, SiteForm]) -> Graph:
        calls = {node.op: self._call(node.op) for node in graph.nodes if isinstance(node.op, Call)}
        renamed = any(call != changed for call, changed in calls.items())
        if name != graph.name:
            own = {key: each for key, each in self.program.recipes.items() if key[0] == graph.name}
            self.recipes |= {(name, parameter): each for (_, parameter), each in own.items()}
        if not forms and not renamed:
            return graph if name == graph.name else replace(graph, name=name)
        made = quantize_function(graph, name, forms, calls)
        self.recipes |= {(name, parameter): each for parameter, each in made.recipes.items()}
        self._count("projections of codes", made.products)
        self._count("inputs quantized", made.inputs)
        return made.graph

    def _call(self, call: Call) -> Call:
        forms = self._forms(call)
        new = tuple(
            (part(name), part(key_of(call, name)))
            for name, form in forms
            if form.delivered
            for part in (codes_name, scale_name)
        )
        return replace(call, callee=self._names[call.callee, forms], keys=(*call.keys, *new))

    def _count(self, what: str, number: int = 1) -> None:
        if number:
            self.statistics[what] = self.statistics.get(what, 0) + number


def _calls(program: Program) -> Iterator[Call]:
    for graph in program.graphs:
        for node in graph.nodes:
            if isinstance(node.op, Call):
                yield node.op


def _remarks(program: Program, lines: tuple[SiteLine, ...]) -> Iterator[Remark]:
    """Yield what lines cannot reach: weights that are computed first, and odd rows of four bits."""
    if not any(line.form for line in lines):
        return
    for site in sites_of(program):
        form = form_of(lines, site.key)
        if form and form.bits <= HALF_BYTE and not form.lies_in_pairs(site.kind):
            what = f"rows of {site.kind.shape[-1]} codes of `{site.key}` do not lie in pairs"
            yield Remark(f"insert-quantization: {what}: eight bits hold {form.bits}", UNKNOWN)
    for graph in program.graphs:
        constant = _weight_only(graph)
        for node in graph.nodes:
            computed = (
                isinstance(node.op, PRODUCTS)
                and weight_of(graph, node) is None
                and node.operands[1].node in constant
                and node.types[0].dtype.is_float
            )
            if computed:
                what = f"a weight of @{graph.name} is computed of others, and keeps its format"
                yield Remark(f"insert-quantization: {what}", node.location)


def _weight_only(graph: Graph) -> frozenset[int]:
    found: set[int] = set()
    params = {value.node for value in graph.params}
    for position, node in enumerate(graph.nodes):
        inner = bool(node.operands) and all(value.node in found for value in node.operands)
        if position in params or inner:
            found.add(position)
    return frozenset(found)
