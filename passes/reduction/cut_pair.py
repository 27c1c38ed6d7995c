"""Without the pass itself: the part of the programs before and after that explains a difference."""

from collections.abc import Iterator, Mapping

import numpy as np

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.program import Program
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.reduction.case import Case, computing_nodes
from ascendfx.passes.reduction.cut_program import cut_name
from ascendfx.passes.verification.first_difference import is_known
from ascendfx.passes.verification.run_with_noise import Noisy, tolerance

Values = Mapping[int, tuple[Noisy, ...]]
"""Results of every node of a graph."""

_TRIED = 8
"""More places than this where the programs begin to differ are not cut out."""


def cut_pairs(
    programs: tuple[Program, Program],
    values: tuple[Values, Values],
    result: int,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> Iterator[tuple[Case, Program]]:
    """Yield parts of the program before, each with that of the program after, the smallest first.

    Both entries take the same inputs and differ in a result. The result is followed upwards through
    equal operations to where the programs begin to differ, along every operand that does. Values of
    the program after that the program before has, too, become inputs of both.

    Args:
        programs: Before and after, of one graph each.
        values: Of both entries.
        result: Which output differs.
        tensors: Parameters and inputs by name.
        sizes: Named sizes.
    """
    graphs = programs[0].main, programs[1].main
    last = graphs[0].outputs[result], graphs[1].outputs[result]
    ends = sorted(_descend(graphs, values, last), key=lambda pair: (pair[1], pair[0]))
    pairs = [_cut(programs, values, each, tensors, sizes) for each in ends[:_TRIED]]
    yield from sorted(pairs, key=lambda pair: pair[0].nodes + computing_nodes(pair[1]))
    yield _cut(programs, values, last, tensors, sizes)


def _cut(
    programs: tuple[Program, Program],
    values: tuple[Values, Values],
    ends: tuple[Value, Value],
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> tuple[Case, Program]:
    before, after = programs[0].main, programs[1].main
    known = _matched((before, after), values, ends)
    graphs = (
        _part(before, ends[0], {value: value for value in known.values()}, before),
        _part(after, ends[1], known, before),
    )
    parts = tuple(
        Program((graph,), program.recipes).pruned()
        for graph, program in zip(graphs, programs, strict=True)
    )
    names = {name for part in parts for name in (*checkpoint_types(part), *part.main.input_types)}
    given = {cut_name(before, v): values[0][v.node][v.result][0] for v in known.values()}
    kept = {name: given[name] if name in given else tensors[name] for name in sorted(names)}
    inputs = set(parts[0].main.input_types) | set(parts[1].main.input_types)
    shared = [_with_inputs(part, parts, inputs) for part in parts]
    return Case(shared[0], kept, sizes), shared[1]


def _descend(
    graphs: tuple[Graph, Graph], values: tuple[Values, Values], last: tuple[Value, Value]
) -> list[tuple[Value, Value]]:
    """Return the pairs of different values that no different operands of equal nodes explain."""
    found: list[tuple[Value, Value]] = []
    seen: set[tuple[Value, Value]] = set()
    pending = [last]
    while pending:
        pair = pending.pop()
        if pair in seen:
            continue
        seen.add(pair)
        deeper = _different_operands(graphs, values, pair)
        pending += deeper
        if not deeper:
            found.append(pair)
    return found


def _different_operands(
    graphs: tuple[Graph, Graph], values: tuple[Values, Values], ends: tuple[Value, Value]
) -> list[tuple[Value, Value]]:
    nodes = [graph.nodes[end.node] for graph, end in zip(graphs, ends, strict=True)]
    if nodes[0].op != nodes[1].op or len(nodes[0].operands) != len(nodes[1].operands):
        return []
    pairs = [
        pair
        for pair in zip(nodes[0].operands, nodes[1].operands, strict=True)
        if not _same(_of(values[0], pair[0]), _of(values[1], pair[1]))
    ]
    comparable = all(
        graphs[0].type_of(one) == graphs[1].type_of(other)
        and bool(graphs[0].nodes[one.node].operands and graphs[1].nodes[other.node].operands)
        and not _permuted(_of(values[0], one), _of(values[1], other))
        for one, other in pairs
    )
    exchanged = len(pairs) > 1 and _exchanged(nodes, values)
    return pairs if comparable and not exchanged else []


def _exchanged(nodes: list[Node], values: tuple[Values, Values]) -> bool:
    """Return whether an operand is another one of the node before: places tell nothing then."""
    before, after = (node.operands for node in nodes)
    return any(
        i != j and _same(_of(values[0], one), _of(values[1], other))
        for i, one in enumerate(before)
        for j, other in enumerate(after)
        if not _same(_of(values[0], before[j]), _of(values[1], other))
    )


def _permuted(one: Noisy, other: Noisy) -> bool:
    """Return whether the elements are the same in another order, as a layout moves them."""
    if one[0].dtype.kind != "f" or one[0].size != other[0].size:
        return False
    return is_known(other, {one[0].size: [(np.sort(one[0], None), tolerance(one))]})


def _matched(
    graphs: tuple[Graph, Graph], values: tuple[Values, Values], ends: tuple[Value, Value]
) -> dict[Value, Value]:
    """Return the first values that the cone of the program after shares with the one before."""
    before, after = graphs
    found: dict[Value, Value] = {}
    pending = list(after.nodes[ends[1].node].operands)
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen or isinstance(after.op_of(value), Param | Input):
            continue
        seen.add(value)
        twin = next(
            (
                Value(position, i)
                for position, results in values[0].items()
                if before.nodes[position].operands
                for i, each in enumerate(results)
                if Value(position, i) != ends[0]
                and before.type_of(Value(position, i)) == after.type_of(value)
                and _same(each, _of(values[1], value))
            ),
            None,
        )
        if twin is None:
            pending += after.nodes[value.node].operands
        else:
            found[value] = twin
    return found


def _part(graph: Graph, end: Value, leaves: Mapping[Value, Value], named_by: Graph) -> Graph:
    builder = GraphBuilder(graph.name)
    moved: dict[Value, Value] = {}

    def emit(value: Value) -> Value:
        if value in moved:
            return moved[value]
        node = graph.nodes[value.node]
        with builder.at(node.location):
            if value in leaves and value != end:
                name = cut_name(named_by, leaves[value])
                moved[value] = builder.leaf(Input(name, graph.type_of(value)))
            elif not node.operands:
                moved[value] = builder.leaf(node.op)
            else:
                results = builder.add_multi(node.op, *map(emit, node.operands))
                moved.update((Value(value.node, i), each) for i, each in enumerate(results))
        return moved[value]

    return builder.build(emit(end))


def _with_inputs(program: Program, both: tuple[Program, ...], inputs: set[str]) -> Program:
    """Return the program with inputs that only the other one reads, in a common order."""
    kinds = {name: k for each in both for name, k in each.main.input_types.items()}
    builder = GraphBuilder(program.name)
    for name in sorted(inputs):
        builder.leaf(Input(name, kinds[name]))
    moved: dict[Value, Value] = {}
    for position, node in enumerate(program.main.nodes):
        with builder.at(node.location):
            if node.operands:
                results = builder.add_multi(node.op, *(moved[v] for v in node.operands))
            else:
                results = (builder.leaf(node.op),)
        moved.update((Value(position, i), each) for i, each in enumerate(results))
    graph = builder.build(*(moved[value] for value in program.main.outputs))
    return Program((graph, *program.graphs[1:]), program.recipes)


def _of(values: Values, value: Value) -> Noisy:
    return values[value.node][value.result]


def _same(one: Noisy, other: Noisy) -> bool:
    if one[0].shape != other[0].shape or one[0].dtype.kind != other[0].dtype.kind:
        return False
    if one[0].dtype.kind != "f":
        return bool(np.array_equal(one[0], other[0]))
    slack = tolerance(one) + tolerance(other)
    with np.errstate(invalid="ignore"):
        near = np.abs(one[0] - other[0]) <= slack
    return bool(np.all(near | (one[0] == other[0]) | (np.isnan(one[0]) & np.isnan(other[0]))))
