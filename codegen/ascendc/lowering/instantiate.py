"""Write out the calls: one flat list of launches, with a buffer for every operand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ascendfx.codegen.ascendc.kernel import Direction, Kernel
from ascendfx.codegen.ascendc.launch_plan import Argument, Buffer, Launch, Place
from ascendfx.codegen.ascendc.lowering.step import (
    CallStep,
    KernelStep,
    LoweredGraph,
    Operand,
    Scratch,
)
from ascendfx.codegen.ascendc.lowering.view import CapacityOf, capacities, storage_dtype
from ascendfx.codegen.ascendc.lowering.weight_program import recipe_of, weight_spec
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Call, Input
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import SIZES


@dataclass(frozen=True)
class LoweredProgram:
    """Every graph of a program as launches.

    Attributes:
        program: The graphs.
        graphs: Launches by name of the graph.
        kernels: Kernel of each launch, in the order of `LoweredGraph.steps`, None for calls.
        constants: Positions of constants by name of the graph.
        capacity: Largest value of each named size.
    """

    program: Program
    graphs: Mapping[str, LoweredGraph]
    kernels: Mapping[str, Sequence[Kernel | None]]
    constants: Mapping[str, frozenset[int]]
    capacity: CapacityOf


@dataclass(frozen=True)
class Instantiated:
    """A program without calls.

    Attributes:
        launches: In order.
        buffers: By name; arena buffers have no offset yet.
        weights: By name.
        outputs: Where the results of the entry graph are.
    """

    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    weights: Mapping[str, WeightSpec]
    outputs: tuple[Argument, ...]


def instantiate(lowered: LoweredProgram, inputs: Mapping[str, Buffer]) -> Instantiated:
    """Write out the entry graph.

    Args:
        lowered: The program.
        inputs: Buffer of each input of the entry graph, and the ``sizes``.
    """
    state = _State(lowered, {buffer.name: buffer for buffer in inputs.values()})
    graph = lowered.program.main
    bound: dict[Value | Scratch, Argument] = {
        value: Argument(inputs[_input_name(graph, value)].name) for value in graph.inputs
    }
    outputs = _run(state, _Frame(graph, "", None, bound))
    return Instantiated(tuple(state.launches), state.buffers, state.weights, outputs)


@dataclass
class _State:
    lowered: LoweredProgram
    buffers: dict[str, Buffer]
    launches: list[Launch] = field(default_factory=list[Launch])
    weights: dict[str, WeightSpec] = field(default_factory=dict[str, WeightSpec])
    prefixes: dict[str, int] = field(default_factory=dict[str, int])
    recipes: dict[tuple[str, Value], Graph] = field(default_factory=dict[tuple[str, Value], Graph])


@dataclass
class _Frame:
    """One use of a graph: prefix of its names, keys of its weights, places of its values."""

    graph: Graph
    prefix: str
    keys: Mapping[str, str] | None
    bound: dict[Value | Scratch, Argument]


def _run(state: _State, frame: _Frame) -> tuple[Argument, ...]:
    lowered = state.lowered.graphs[frame.graph.name]
    kernels = state.lowered.kernels[frame.graph.name]
    for step, kernel in zip(lowered.steps, kernels, strict=True):
        if isinstance(step, CallStep):
            _call(state, frame, step)
        else:
            if kernel is None:
                raise AssertionError("a launch has a kernel")
            _launch(state, frame, step, kernel)
    return tuple(
        _argument(state, frame, Operand(view.root, view.offset * view.dtype.bytes))
        for view in lowered.outputs
    )


def _call(state: _State, frame: _Frame, step: CallStep) -> None:
    graph = state.lowered.program.by_name[step.call.callee]
    arguments = [_argument(state, frame, operand) for operand in step.operands]
    prefix = _unused(state, _call_prefix(step.call, step.position))
    keys = {
        formal: key if frame.keys is None else frame.keys[key] for formal, key in step.call.keys
    }
    bound: dict[Value | Scratch, Argument] = dict(zip(graph.inputs, arguments, strict=True))
    results = _run(state, _Frame(graph, prefix, keys, bound))
    for i, result in enumerate(results):
        frame.bound[Value(step.position, i)] = result


def _unused(state: _State, prefix: str) -> str:
    """Return ``prefix``, numbered if another call has taken it."""
    count = state.prefixes[prefix] = state.prefixes.get(prefix, 0) + 1
    return prefix if count == 1 else f"{prefix}{count}."


def _call_prefix(call: Call, position: int) -> str:
    """Return what the keys of a call have in common, ``model.layers.3.``, or the callee."""
    keys = [key for _, key in call.keys]
    shared = keys[0] if keys else ""
    for key in keys[1:]:
        while not key.startswith(shared):
            shared = shared[:-1]
    whole = shared[: shared.rfind(".") + 1]
    return whole or f"{call.callee}.{position}."


def _launch(state: _State, frame: _Frame, step: KernelStep, kernel: Kernel) -> None:
    operands = iter(step.operands)
    arguments: list[Argument] = []
    for formal in kernel.arguments:
        if formal.name == SIZES:
            argument = Argument(SIZES)
        elif formal.direction is Direction.WORKSPACE:
            name = f"workspace.{len(state.launches)}"
            state.buffers[name] = Buffer(name, formal.dtype, (formal.elements,), Place.ARENA)
            argument = Argument(name)
        else:
            argument = _argument(state, frame, next(operands))
        buffer = state.buffers[argument.buffer]
        end = argument.byte_offset + formal.elements * formal.dtype.bytes
        if buffer.dtype is not formal.dtype:
            raise AssertionError(f"{kernel.name}: {formal.name} is {buffer}")
        if end > buffer.bytes:
            raise AssertionError(f"{kernel.name}: {formal} leaves {buffer}")
        arguments.append(argument)
    if next(operands, None) is not None:
        raise AssertionError(f"{kernel.name} takes fewer operands")
    label = _label(frame, step)
    state.launches.append(Launch(kernel.name, tuple(arguments), label))


def _label(frame: _Frame, step: KernelStep) -> str:
    nodes = [frame.graph.nodes[position] for position in step.covers]
    where = frame.prefix.rstrip(".") or nodes[-1].location.module or frame.graph.name
    return f"{where}: {' + '.join(node.op.mnemonic for node in nodes)}"


def _argument(state: _State, frame: _Frame, operand: Operand) -> Argument:
    root = operand.root
    constants = state.lowered.constants[frame.graph.name]
    if isinstance(root, Value) and root.node in constants:
        return Argument(_weight(state, frame, root, operand.layout), operand.byte_offset)
    if root not in frame.bound:
        buffer = _new_buffer(state, frame, root)
        state.buffers[buffer.name] = buffer
        frame.bound[root] = Argument(buffer.name)
    start = frame.bound[root]
    return replace(start, byte_offset=start.byte_offset + operand.byte_offset)


def _new_buffer(state: _State, frame: _Frame, root: Value | Scratch) -> Buffer:
    if isinstance(root, Scratch):
        name = f"{frame.prefix}{root.name}.{root.position}"
        return Buffer(name, root.dtype, (root.elements,), Place.ARENA)
    kind = frame.graph.type_of(root)
    shape = capacities(kind.shape, state.lowered.capacity)
    result = f".{root.result}" if root.result else ""
    name = f"{frame.prefix}{frame.graph.op_of(root).mnemonic}.{root.node}{result}"
    if name in state.buffers:
        raise AssertionError(f"two uses of a graph share the prefix {frame.prefix}")
    return Buffer(name, storage_dtype(kind.dtype), shape, Place.ARENA)


def _weight(state: _State, frame: _Frame, root: Value, layout: str) -> str:
    key = (frame.graph.name, root)
    if key not in state.recipes:
        state.recipes[key] = recipe_of(state.lowered.program, frame.graph, root)
    op = frame.graph.op_of(root)
    formal = getattr(op, "name", f"{op.mnemonic}.{root.node}")
    prefix = "" if frame.keys is None else frame.prefix
    spec = weight_spec(state.recipes[key], name=f"{prefix}{formal}", layout=layout, keys=frame.keys)
    known = state.weights.setdefault(spec.name, spec)
    if known != spec:
        raise AssertionError(f"two weights are called {spec.name}")
    state.buffers.setdefault(
        spec.name, Buffer(spec.name, spec.dtype, spec.packed_shape, Place.WEIGHT)
    )
    return spec.name


def _input_name(graph: Graph, value: Value) -> str:
    op = graph.op_of(value)
    if not isinstance(op, Input):
        raise AssertionError("inputs are Input nodes")  # noqa: TRY004
    return op.name
