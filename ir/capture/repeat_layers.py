"""Replace the marks of layers that were not traced by calls of the traced layer's function."""

from collections.abc import Mapping, Sequence

from ascendfx.ir.capture.outline_layers import Outlined
from ascendfx.ir.capture.shorten_layers import Run
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops.call import Call
from ascendfx.ir.program import Program


def repeat_layers(
    outlined: Outlined, runs: Sequence[Run], canonical: Mapping[str, str]
) -> Program | str:
    """Return the program with every layer called, or why the runs cannot be extended.

    A run can be extended when its two traced layers are the same function, called with the same
    values except for one, which is the first layer's only result.

    Args:
        outlined: The program with marks.
        runs: Which layers were traced and which were marked.
        canonical: The key under which each parameter, by any of its names, is stored.
    """
    main = outlined.program.main
    chains: dict[str, _Chain] = {}
    for run in runs:
        chain = _chain(outlined, run)
        if isinstance(chain, str):
            return chain
        chains.update(dict.fromkeys(run.skipped, chain))
    return Program((_extended(main, chains, canonical), *outlined.program.graphs[1:]))


class _Chain:
    """How one layer of a run follows another.

    Attributes:
        call: The call of the second traced layer.
        operands: What it is called with.
        place: Which operand is the previous layer's result.
        path: The module path of that layer.
    """

    def __init__(self, call: Call, operands: tuple[Value, ...], place: int, path: str) -> None:
        self.call = call
        self.operands = operands
        self.place = place
        self.path = path


def _chain(outlined: Outlined, run: Run) -> _Chain | str:
    main = outlined.program.main
    name = f"layers `{run.traced[0]}` and `{run.traced[1]}`"
    positions = [outlined.calls.get(path) for path in run.traced]
    if positions[0] is None or positions[1] is None:
        return f"{name} are not both functions"
    first, second = (main.nodes[p] for p in positions if p is not None)
    if not isinstance(first.op, Call) or not isinstance(second.op, Call):
        return f"{name} are not both functions"
    if first.op.callee != second.op.callee:
        return f"{name} are different functions"
    if len(second.types) != 1:
        return f"{name} have {len(second.types)} results"
    pairs = zip(first.operands, second.operands, strict=True)
    places = [i for i, (a, b) in enumerate(pairs) if a != b]
    previous = Value(positions[0])
    if len(places) != 1 or second.operands[places[0]] != previous:
        return f"{name} are not wired as a chain"
    if main.type_of(previous) != second.types[0]:
        return f"{name} change the type of what runs through them"
    return _Chain(second.op, second.operands, places[0], run.traced[1])


def _extended(main: Graph, chains: Mapping[str, _Chain], canonical: Mapping[str, str]) -> Graph:
    builder = GraphBuilder(main.name)
    moved: dict[Value, Value] = {}
    for position, node in enumerate(main.nodes):
        operands, op = node.operands, node.op
        if isinstance(op, Call) and op.callee in chains:
            chain, path = chains[op.callee], op.callee
            operands = tuple(
                node.operands[0] if i == chain.place else v for i, v in enumerate(chain.operands)
            )
            keys = tuple(
                (name, _moved_key(key, chain.path, path, canonical))
                for name, key in chain.call.keys
            )
            op = Call(chain.call.callee, chain.call.types, keys)
        with builder.at(node.location):
            results = builder.add_multi(op, *(moved[v] for v in operands))
        moved.update((Value(position, i), result) for i, result in enumerate(results))
    return builder.build(*(moved[v] for v in main.outputs))


def _moved_key(key: str, traced: str, path: str, canonical: Mapping[str, str]) -> str:
    """Return the key that is in the layer at ``path`` what ``key`` is in the traced one."""
    if not key.startswith(f"{traced}."):
        return key
    moved = path + key.removeprefix(traced)
    return canonical.get(moved, moved)
