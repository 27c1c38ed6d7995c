"""Steps of programs with codes, in the emulator and interpreted: what both made."""

import numpy as np

from ascendfx.codegen.ascendc.kernel import Direction
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir import ops
from ascendfx.ir.tensor_type import DType
from tests.lowering.plan_runner import PlanRunner
from tests.lowering.quantized_program import quantized
from tests.lowering.rounding_noise import NoisyInterpreter
from tests.lowering.serving_case import checkpoint, random_caches
from tests.lowering.serving_programs import serving_program

TARGET = find_target("ascend910b")
CONTEXT, BLOCKS = 256, 8


class ExactCodes(NoisyInterpreter):
    """Interprets a program in float64 and keeps the codes of activations and their products."""

    def __init__(self, program, tensors, sizes):
        super().__init__(program, tensors, sizes, 0, noisy=False)
        self.made = {"codes": [], "sums": []}
        self.inside = False

    def weight(self, recipe, call):
        outer, self.inside = self.inside, True
        made = super().weight(recipe, call)
        self.inside = outer
        return made

    def step(self, node, operands):
        results = super().step(node, operands)
        if not self.inside:
            if node.op in (ops.Cast(DType.I8), ops.SplitCodes()):
                self.made["codes"].append(results[0])
            if node.types[0].dtype is DType.I32 and isinstance(
                node.op, ops.Linear | ops.GroupedLinear
            ):
                self.made["sums"].append(results[0])
        return results


def run_both(shape, name, step, *, rows, requests, rewrite=quantized, **options):
    """Return what plan and interpreter made: codes, sums and logits, in the order of the graph.

    Caches are among what they made, as they are after the step.
    """
    plain = serving_program(shape, name)
    program = rewrite(plain, **options)
    plan, weights = lower_program(
        program, target=TARGET, rows=rows, requests=requests, context=CONTEXT, blocks=BLOCKS,
        name=name,
    )  # fmt: skip
    tensors = checkpoint(plain)
    runner = PlanRunner(plan, weights, tensors, TARGET)
    caches = random_caches(np.random.default_rng(7), program, BLOCKS)
    for key, value in caches.items():
        runner.array(key)[:] = value
    inputs, sizes = step
    made = {"codes": [], "sums": []}

    def collect(launch, runner):
        kernel = runner.plan.kernel_by_name[launch.kernel]
        for formal, actual in zip(kernel.arguments, launch.arguments, strict=True):
            if formal.direction is Direction.OUT:
                start = actual.byte_offset
                stored = runner.memory[actual.buffer][start:][
                    : formal.elements * formal.dtype.bytes
                ]
                if formal.dtype in (DType.I8, DType.I4X2) and "gather" not in launch.kernel:
                    made["codes"].append(stored.view(formal.dtype.numpy).copy())
                if formal.dtype is DType.I32 and "matmul" in launch.kernel:
                    made["sums"].append(stored.view(np.int32).copy())

    pairs = (sizes[0] * shape.top_k, sizes[1] * shape.top_k)
    _, logits = runner.step(inputs, (*sizes, *pairs), collect)
    given = {
        key: value.astype(np.int64 if value.dtype.kind in "iu" else np.float64)
        for key, value in {**inputs, **caches}.items()
    }
    named = {"rows": sizes[0], "requests": sizes[1], "context": sizes[2], "blocks": BLOCKS}
    named["table_blocks"] = inputs["block_table"].shape[1]
    exact = ExactCodes(program, tensors, named)
    _, exact_logits, *rest = exact.run(program.main, given)
    made["caches"] = [runner.array(key) for key in caches]
    exact.made["caches"] = rest[-len(caches) :]
    return made, exact.made, (logits[: sizes[1]], exact_logits)


def assert_same(found, wanted):
    """Assert that launches made these tensors; launches of one layer may be in another order."""
    assert len(found) == len(wanted)
    rest = list(found)
    for each in wanted:
        flat = each.reshape(-1)
        i = next((i for i, got in enumerate(rest) if np.array_equal(got[: flat.size], flat)), None)
        assert i is not None, f"no launch made these {each.shape}: {each}"
        rest.pop(i)
