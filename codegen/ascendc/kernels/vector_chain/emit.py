"""Write a vector chain as one kernel."""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.kernels.vector_chain.device_functions import device_functions_text
from ascendfx.codegen.ascendc.kernels.vector_chain.emit_copies import write_load, write_store
from ascendfx.codegen.ascendc.kernels.vector_chain.emit_steps import write_step
from ascendfx.codegen.ascendc.kernels.vector_chain.places import root_of
from ascendfx.codegen.ascendc.kernels.vector_chain.plan import VectorChainPlan
from ascendfx.codegen.ascendc.kernels.vector_chain.program import Load, Relabel, Store
from ascendfx.codegen.ascendc.kernels.vector_chain.tables import Table
from ascendfx.codegen.ascendc.kernels.vector_chain.tile_text import TileText
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    kernel_function,
    local_bytes,
    write_buffers,
    write_head,
    write_size,
    write_split,
)


def emit_vector_chain(plan: VectorChainPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments: the graph's inputs ``x0 ..``, its parameters ``w0 ..``, its outputs ``y0 ..``, then
    ``sizes``.
    """
    program = plan.program
    arguments = (
        *(KernelArgument(a.name, a.dtype, Direction.IN, a.elements) for a in program.inputs),
        *(KernelArgument(a.name, a.dtype, Direction.OUT, a.elements) for a in program.outputs),
        SIZES_ARGUMENT,
    )
    helpers: set[str] = set()
    body = CppWriter()
    with kernel_function(body, name, arguments):
        _write_body(body, plan, helpers)
    head = CppWriter()
    constants: dict[str, int | str] = {"BLOCKS": plan.blocks}
    if plan.pieces > 1:
        constants["COLUMNS"] = max(each.columns for each in program.layouts)
        constants["PIECE"] = plan.tile.piece
        constants["PIECES"] = plan.pieces
    else:
        constants["STEP_ROWS"] = plan.tile.rows
    write_head(head, _comment(plan, name), constants, device_functions_text(helpers))
    source = head.text() + body.text()
    return Kernel(name, "vector-chain", KernelKind.VECTOR, plan.blocks, arguments, source)


def _comment(plan: VectorChainPlan, name: str) -> list[str]:
    program = plan.program
    lines = [f"{name}: vector chain, row < sizes[{plan.rows.slot}] <= {plan.rows.capacity}."]
    lines += [f"  {each.name} {each.meaning}" for each in (*program.inputs, *program.outputs)]
    what = (
        f"{plan.pieces} pieces of {plan.tile.piece} columns per row"
        if plan.pieces > 1
        else f"{plan.tile.rows} rows at a time"
    )
    lines.append(
        f"{what}, over {plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory."
    )
    return lines


def _write_body(out: CppWriter, plan: VectorChainPlan, helpers: set[str]) -> None:
    write_size(out, "rows", plan.rows)
    if plan.pieces > 1:
        out.line("const uint32_t items = rows * PIECES;")
    write_split(out, "items" if plan.pieces > 1 else "rows")
    write_buffers(out, plan.buffers)
    _write_names(out, plan)
    for table in plan.tables:
        _write_table(out, table)
    text = TileText(plan, helpers)
    for i in plan.schedule.once:
        _write(out, text, i)
    if plan.pieces > 1:
        with out.block("for (uint32_t item = first; item < last; ++item)"):
            out.line("const uint32_t row = item / PIECES;")
            out.line("const uint32_t column = item % PIECES * PIECE;")
            out.line("const uint32_t width = column + PIECE < COLUMNS ? PIECE : COLUMNS - column;")
            out.line("const uint32_t padded = (width + 7) / 8 * 8;")
            _write_tile(out, text)
    else:
        with out.block("for (uint32_t row = first; row < last; row += STEP_ROWS)"):
            out.line("const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;")
            _write_tile(out, text)

    for i in plan.schedule.once:
        if text.is_queued(i):
            out.line(f"v{i}Queue.FreeTensor(v{i});")


def _write_names(out: CppWriter, plan: VectorChainPlan) -> None:
    out.line("LocalTensor<float> arena = arenaBuffer.Get<float>();")
    if plan.work:
        out.line("LocalTensor<float> work = workBuffer.Get<float>();")
    for i in (*plan.schedule.once, *plan.schedule.tile):
        if not isinstance(plan.program.steps[i], Store | Relabel) and i in plan.places.starts:
            out.line(f"LocalTensor<float> v{i} = arena[{plan.places.starts[i]}];")


def _write_table(out: CppWriter, table: Table) -> None:
    name, count = table.name, table.elements
    out.line(f"LocalTensor<int32_t> {name} = {name}Buffer.Get<int32_t>();")
    out.line(f"CreateVecIndex({name}, static_cast<int32_t>(0), {count});")
    if table.interleaved:
        # entry j is start + scale * (j / 2) + distance * (j - 2 * (j / 2))
        out.line(f"LocalTensor<int32_t> {name}Half = arena.ReinterpretCast<int32_t>();")
        out.line(f"ShiftRight({name}Half, {name}, static_cast<int32_t>(1), {count});")
        out.line(f"Muls({name}, {name}, static_cast<int32_t>({table.distance}), {count});")
        out.line(
            f"Muls({name}Half, {name}Half, "
            f"static_cast<int32_t>({table.scale - 2 * table.distance}), {count});"
        )
        out.line(f"Add({name}, {name}, {name}Half, {count});")
    else:
        out.line(f"Muls({name}, {name}, static_cast<int32_t>({table.scale}), {count});")
    if table.start:
        out.line(f"Adds({name}, {name}, static_cast<int32_t>({table.start}), {count});")


def _write_tile(out: CppWriter, text: TileText) -> None:
    plan = text.plan
    written = ""
    for position, i in enumerate(plan.schedule.tile):
        origin = plan.program.origins[i]
        if origin and origin != written:
            out.line(f"// {origin}")
        written = origin
        _write(out, text, i)
        for value, last in plan.schedule.last_use.items():
            if last == position and value not in plan.schedule.once and text.is_queued(value):
                out.line(f"v{value}Queue.FreeTensor(v{value});")


def _write(out: CppWriter, text: TileText, i: int) -> None:
    step = text.plan.program.steps[i]
    if isinstance(step, Load):
        write_load(out, text, i, step)
    elif isinstance(step, Store):
        write_store(out, text, i, step)
    elif isinstance(step, Relabel):
        root = root_of(text.plan.program, i)
        out.line(f"LocalTensor<float> v{i} = v{root};")
    else:
        write_step(out, text, i, step)
