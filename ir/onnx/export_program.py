"""`to_onnx`: a program of any stage of the pipeline as an ONNX model."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.onnx.specialise_program import specialise_program
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.verify import verify_program

if TYPE_CHECKING:
    from onnx import ModelProto


def to_onnx(
    program: Program | Graph,
    *,
    weights: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    float_dtype: DType | None = None,
    qdq: bool = False,
) -> "ModelProto":
    """Return a program as an ONNX model of standard operators.

    Functions of the program are model-local functions in the domain ``ascendfx.program``, fused
    operations in ``ascendfx.ops``, one for each choice of attributes and operand types. Inputs
    keep their names; outputs are ``output_0``, ``output_1`` and so on. A named size that no
    input's shape reveals is an input ``size.<name>`` of type ``i64[1]``.

    Numerics: arithmetic on bf16 and f16 is written as a conversion to f32, the operation, and one
    rounding, as our operations state it. Indices chosen among equal values are the same as ours.

    Args:
        program: Captured, raised or in serving form; a graph is a program without functions.
        weights: Arrays by checkpoint key, written into the model; recipes are evaluated in
            float64. None: parameters are inputs named by checkpoint key, recipes are nodes.
        sizes: Numbers for named sizes; the others stay symbolic (``dim_param``).
        float_dtype: Write every float in this format, whatever the program says.
        qdq: Write projections of codes (`InsertQuantization`) as QuantizeLinear, DequantizeLinear
            and a product of floats, the form that other tools know; codes in `weights` that fit
            into four bits are stored as int4. Else they are multiplied as integers, exactly.

    Raises:
        GraphError: onnx is not installed, the program is malformed or has something that ONNX
            cannot say, a weight is missing or has the wrong shape, or the weights exceed the
            2 GiB that one ONNX file holds.
    """
    if find_spec("onnx") is None:
        raise GraphError(
            code="missing-package",
            reason="the export needs the package `onnx`, which is not installed",
            hint="pip install ascendfx[onnx]",
        )
    if float_dtype is not None and not float_dtype.is_float:
        raise GraphError(
            "onnx-format",
            f"{float_dtype.value} is not a float format",
            hint="pass DType.F32 or DType.F64",
        )
    if qdq and float_dtype not in (None, DType.F32):
        raise GraphError(
            "onnx-format",
            f"QuantizeLinear has scales of f32, and floats are to be {float_dtype.value}",
            hint="leave float_dtype out, or pass qdq=False",
        )
    whole = program if isinstance(program, Program) else Program((program,))
    verify_program(whole)
    special = specialise_program(whole, sizes=sizes or {}, float_dtype=float_dtype)
    from ascendfx.ir.onnx.write_model import write_model  # noqa: PLC0415  # an extra

    return write_model(special, weights, qdq=qdq)
