"""Runs a launch plan in the emulator on plain arrays, the slow and simple way."""

import numpy as np

from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.codegen.ascendc.weight_spec import evaluate_weight
from ascendfx.runtime.emulator import build_kernels

SIZE_SLOTS = 8


class PlanRunner:
    """Memory of one plan: weights are evaluated once, caches keep their contents.

    `launched` holds the launches of the last step, and what the emulator counted in each.
    """

    def __init__(self, plan, weights, checkpoint, target):
        self.plan = plan
        self.launched = []
        self.built = build_kernels(plan.kernels, target)
        self.arena = _aligned(plan.arena_bytes)
        self.memory = {}
        specs = {spec.name: spec for spec in weights}
        for buffer in plan.buffers:
            if buffer.place is Place.ARENA:
                start = buffer.offset_bytes
                self.memory[buffer.name] = self.arena[start : start + buffer.bytes]
            else:
                self.memory[buffer.name] = _aligned(buffer.bytes)
            if buffer.place is Place.WEIGHT:
                packed = evaluate_weight(specs[buffer.name], checkpoint)
                assert packed.shape == buffer.shape
                self.memory[buffer.name][:] = packed.reshape(-1).view(np.uint8)

    def array(self, name):
        buffer = self.plan.buffer_by_name[name]
        return self.memory[name].view(buffer.dtype.numpy).reshape(buffer.shape)

    def step(self, inputs, sizes, after_launch=None):
        """Run all launches; return the results, tokens and logits, at capacity."""
        self.arena[:] = 0xFF  # a NaN in every format: what nobody wrote must not be read
        for name, value in inputs.items():
            target = self.array(name)
            target[tuple(slice(0, size) for size in value.shape)] = value
        self.array("sizes")[: len(sizes)] = sizes
        self.launched = []
        for launch in self.plan.launches:
            self.launched.append((launch, self._launch(launch)))
            if after_launch:
                after_launch(launch, self)
        return tuple(self.array(name) for name in self.plan.results)

    def _launch(self, launch):
        kernel = self.plan.kernel_by_name[launch.kernel]
        arrays = []
        for formal, actual in zip(kernel.arguments, launch.arguments, strict=True):
            start = actual.byte_offset
            end = start + formal.elements * formal.dtype.bytes
            arrays.append(self.memory[actual.buffer][start:end].view(formal.dtype.numpy))
        return self.built[launch.kernel].launch(arrays)


def _aligned(size, alignment=512):
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]
