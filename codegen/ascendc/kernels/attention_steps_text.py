"""The loops over work items and key steps, the same for every attention kernel.

A kernel's own text defines ``struct Work`` (``begin``, ``end``, ``lanes``), ``struct Inputs``
(``Items``, ``Find``, ``LoadQueries``, ``LoadKeys``, ``AddScores``, ``Values``), ``struct Results``
and ``VectorCore::Store``; a causal one also ``VectorCore::Mask``.

Order on the cube core: scores 0, scores 1, products 0, scores 2, products 1, ... On the vector
cores: weights 0, weights 1, accumulate 0, ... The flag ``WEIGHTS_READY`` of step i therefore also
says that slot i & 1 of the scores is read and that the products of step i - 2 are accumulated.
"""

from collections.abc import Sequence

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.replace_once import Change, replace_once

_STEPS = """\
__aicore__ inline uint32_t Pad16(uint32_t size) {
    return Pieces(size, 16) * 16;
}

// Keys of one step of an item.
__aicore__ inline uint32_t KeysOf(const Work& work, uint32_t step) {
    return Smaller(KEY_TILE, work.end - work.begin - step * KEY_TILE);
}
"""

_RUN_CUBE = """\
__aicore__ inline void RunCube(const Inputs& inputs, GM_ADDR workspace) {
    const uint32_t group = static_cast<uint32_t>(GetBlockIdx());
    Exchange exchange;
    exchange.Open(workspace, group);
    CubeCore cube;
    cube.Open();
    uint32_t turn = 0;
    const uint32_t items = inputs.Items();
    for (uint32_t item = group; item < items; item += GROUPS) {
        const Work work = inputs.Find(item);
        const uint32_t steps = Pieces(work.end - work.begin, KEY_TILE);
        const uint32_t lanes = Pad16(work.lanes);
        if (steps == 0) {
            continue;
        }
        inputs.LoadQueries(work);
        for (uint32_t step = 0; step < Smaller(steps, KEY_SLOTS - 1); ++step) {
            inputs.LoadKeys(work, step, (turn + step) % KEY_SLOTS);
        }
        for (uint32_t step = 0; step <= steps; ++step) {
            if (step < steps) {
                const uint32_t keys = Pad16(KeysOf(work, step));
                const uint32_t held = (turn + step) % KEY_SLOTS;
                WaitFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(held));
                WaitFlag<HardEvent::FIX_M>(cube.l0c);
                inputs.AddScores(cube, held, keys, lanes);
                cube.Store(exchange.Scores((turn + step) % 2), keys, lanes, LANES);
                CrossCoreSetFlag<2, PIPE_FIX>(SCORES_READY);
            }
            if (step > 0) {
                const uint32_t keys = Pad16(KeysOf(work, step - 1));
                const uint32_t held = (turn + step - 1) % KEY_SLOTS;
                const uint32_t slot = (turn + step - 1) % 2;
                const uint32_t ahead = step + KEY_SLOTS - 2;
                CrossCoreWaitFlag(WEIGHTS_READY);
                cube.LoadWeights(exchange.Probabilities(slot), keys, lanes);
                if (ahead < steps) {  // behind the weights, which are needed sooner
                    inputs.LoadKeys(work, ahead, (turn + ahead) % KEY_SLOTS);
                }
                cube.WeighValues(exchange.Products(slot), inputs.Values(held), keys, lanes);
                SetFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(held));
                CrossCoreSetFlag<2, PIPE_FIX>(PRODUCTS_READY);
            }
        }
        SetFlag<HardEvent::MTE1_MTE2>(QUERIES);
        turn += steps;
    }
    cube.Close();
}
"""

_RUN_VECTOR = """\
__aicore__ inline void RunVector(const Inputs& inputs, const Results& results, GM_ADDR workspace) {
    const uint32_t group = static_cast<uint32_t>(GetBlockIdx()) / 2;
    Exchange exchange;
    exchange.Open(workspace, group);
    VectorCore core;
    uint32_t turn = 0;
    const uint32_t items = inputs.Items();
    for (uint32_t item = group; item < items; item += GROUPS) {
        const Work work = inputs.Find(item);
        const uint32_t steps = Pieces(work.end - work.begin, KEY_TILE);
        core.Start(Pad16(work.lanes));
        for (uint32_t step = 0; step <= steps; ++step) {
            const uint32_t slot = (turn + step) % 2;
            const uint32_t last = slot ^ 1;
            if (step < steps) {
                const uint32_t keys = KeysOf(work, step);
                CrossCoreWaitFlag(SCORES_READY);
                if (core.lanes > 0) {
                    core.LoadScores(exchange.Scores(slot), keys);
@MASK@
                    core.Weigh(slot);
                    core.StoreWeights(exchange.Probabilities(slot), Pad16(keys));
                }
                CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
            }
            if (step > 0) {
                CrossCoreWaitFlag(PRODUCTS_READY);
                if (core.lanes > 0) {
                    core.Accumulate(exchange.Products(last), last);
                }
            }
        }
        if (core.lanes > 0) {
            core.Store(work, results);
        }
        turn += steps;
    }
}
"""


def write_step_sizes(out: CppWriter) -> None:
    """Write what the kernel's ``Inputs`` may use; needs ``struct Work``."""
    out.lines(_STEPS.splitlines())
    out.line()


def write_runs(
    out: CppWriter, *, causal: bool, cube: Sequence[Change] = (), vector: Sequence[Change] = ()
) -> None:
    """Write ``RunCube`` and ``RunVector``, with what differs in a variant of the kernel."""
    mask = " " * 20 + "core.Mask(work, step);\n" if causal else ""
    run_vector = replace_once(_RUN_VECTOR, ("@MASK@\n", mask), *vector)
    for text in (replace_once(_RUN_CUBE, *cube), run_vector):
        out.lines(text.splitlines())
        out.line()
