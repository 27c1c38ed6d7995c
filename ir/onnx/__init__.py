"""Programs as ONNX models, for viewers and as a second opinion through ONNX Runtime."""
