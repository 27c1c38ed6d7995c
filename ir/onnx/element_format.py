"""Element formats, tensors and types in ONNX terms."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto, helper

from ascendfx.ir.size import print_size
from ascendfx.ir.tensor_type import DType, TensorType

ONNX_FORMAT: dict[DType, int] = {
    DType.F64: TensorProto.DOUBLE,
    DType.F32: TensorProto.FLOAT,
    DType.F16: TensorProto.FLOAT16,
    DType.BF16: TensorProto.BFLOAT16,
    DType.I64: TensorProto.INT64,
    DType.I32: TensorProto.INT32,
    DType.I8: TensorProto.INT8,
    DType.I4X2: TensorProto.UINT8,
    DType.BOOL: TensorProto.BOOL,
}

_WIDE = {DType.BF16: DType.F32, DType.F16: DType.F32, DType.I8: DType.I32}


def wide_format(dtype: DType) -> DType:
    """Return the format in which arithmetic on ``dtype`` is done: float32 for narrow floats."""
    return _WIDE.get(dtype, dtype)


def tensor_proto(name: str, array: NDArray[Any], dtype: DType) -> TensorProto:
    """Return an array, rounded to ``dtype``, as an ONNX tensor."""
    stored = np.ascontiguousarray(array).astype(dtype.numpy)
    little = stored.astype(stored.dtype.newbyteorder("<")) if dtype is not DType.BF16 else stored
    return helper.make_tensor(name, ONNX_FORMAT[dtype], array.shape, little.tobytes(), raw=True)


def value_info(name: str, kind: TensorType) -> ValueInfoProto:
    """Return the declaration of a value; symbolic sizes become ``dim_param``."""
    dims = [size if isinstance(size, int) else print_size(size) for size in kind.shape]
    return helper.make_tensor_value_info(name, ONNX_FORMAT[kind.dtype], dims)
