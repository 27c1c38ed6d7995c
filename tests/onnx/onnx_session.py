"""Run an ONNX model in ONNX Runtime with every optimisation off."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from ascendfx.ir.op import Array

_NUMPY = {
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.FLOAT16: np.dtype(np.float16),
    onnx.TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    onnx.TensorProto.INT64: np.dtype(np.int64),
    onnx.TensorProto.INT32: np.dtype(np.int32),
    onnx.TensorProto.INT8: np.dtype(np.int8),
    onnx.TensorProto.UINT8: np.dtype(np.uint8),
    onnx.TensorProto.BOOL: np.dtype(np.bool_),
}


def run_model(model: onnx.ModelProto, tensors: Mapping[str, Array]) -> list[NDArray[Any]]:
    """Return the outputs; inputs are taken by name and rounded to their declared format.

    Outputs must not be bfloat16, which NumPy does not have. Optimisations are off because ONNX
    Runtime's own have been wrong (onnxsim#749).
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    formats = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
    given = {name: _value(tensors[name], kind) for name, kind in formats.items()}
    binding = session.io_binding()
    for name, (value, _) in given.items():
        binding.bind_ortvalue_input(name, value)
    for output in model.graph.output:
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    return [value.numpy() for value in binding.get_outputs()]


def _value(array: Array, kind: int) -> tuple[onnxruntime.OrtValue, NDArray[Any]]:
    """Return the tensor and the array that owns its memory."""
    stored = np.ascontiguousarray(array, _NUMPY[kind])
    if kind != onnx.TensorProto.BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy(stored), stored
    bits = stored.view(np.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind), bits
