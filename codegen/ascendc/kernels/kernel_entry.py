"""The signature of an emitted kernel, the same for cube, vector and mixed ones."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import KernelArgument, KernelKind


@contextmanager
def kernel_entry(
    out: CppWriter, name: str, kind: KernelKind, arguments: Sequence[KernelArgument]
) -> Generator[None]:
    """Write the signature and the kernel type; then the body; then the closing brace."""
    parameters = ", ".join(f"GM_ADDR {argument.name}" for argument in arguments)
    with out.block(f'extern "C" __global__ __aicore__ void {name}({parameters})'):
        out.line(f"KERNEL_TASK_TYPE_DEFAULT({kind.value});")
        yield
