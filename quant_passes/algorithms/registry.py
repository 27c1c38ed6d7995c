"""Weight algorithms by name: ours, and those that users registered.

The registered ones are the only state of this folder. They change by `register_algorithm` alone,
which a user calls; no import changes them.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.check_algorithm import USUAL, check_algorithm
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.hqq import Hqq
from ascendfx.quant_passes.algorithms.learned_clipping import LearnedClipping
from ascendfx.quant_passes.algorithms.lookup_table import LookupTable
from ascendfx.quant_passes.algorithms.mean_square import MeanSquare
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.percentile import Percentile
from ascendfx.quant_passes.algorithms.qserve import Qserve
from ascendfx.quant_passes.algorithms.ssz import Ssz
from ascendfx.quant_passes.algorithms.sszw import Sszw
from ascendfx.quant_passes.algorithms.tuned_scales import TunedScales
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec

_OURS: tuple[WeightAlgorithm, ...] = (
    Gptq(),
    Hqq(),
    LearnedClipping(),
    LookupTable(),
    MeanSquare(),
    MinMax(),
    Percentile(),
    Qserve(),
    Ssz(),
    Sszw(),
    TunedScales(),
)
ALGORITHMS: Mapping[str, WeightAlgorithm] = {each.name: each for each in _OURS}
"""The algorithms of the library by name, with their usual options."""

_ALSO_CALLED = {
    "rtn": "min_max",
    "minmax": "min_max",
    "mse": "mean_square",
    "lwc": "learned_clipping",
    "omniquant": "learned_clipping",
    "squeezellm": "lookup_table",
    "lut": "lookup_table",
    "w4a8": "qserve",
}
_REGISTERED: dict[str, WeightAlgorithm] = {}


def algorithm_named(name: str) -> WeightAlgorithm:
    """Return the algorithm of a name.

    Raises:
        GraphError: `algorithm-not-known`, with the names that are near.
    """
    known = {**ALGORITHMS, **_REGISTERED}
    if name in known:
        return known[name]
    text = str(name).lower().replace("-", "_")
    near = [_ALSO_CALLED[text]] if text in _ALSO_CALLED else get_close_matches(text, known, n=3)
    meant = f"did you mean {' or '.join(f'`{each}`' for each in near)}? " if near else ""
    raise GraphError(
        "algorithm-not-known",
        f"no weight algorithm is called `{name}`",
        hint=f"{meant}known: {', '.join(sorted(known))}",
    )


def register_algorithm(algorithm: WeightAlgorithm, spec: WeightSpec = USUAL) -> WeightAlgorithm:
    """Check an algorithm on a spec that it takes, and make it known by its name.

    Returns:
        The algorithm itself.

    Raises:
        GraphError: `algorithm-not-proved` with examples; `algorithm-name-taken` if another one,
            registered or of the library, has the name.
    """
    check_algorithm(algorithm, spec)
    taken = {**ALGORITHMS, **_REGISTERED}.get(algorithm.name)
    if taken is not None and taken != algorithm:
        reason = f"another weight algorithm is called `{algorithm.name}`"
        raise GraphError("algorithm-name-taken", reason, hint="give it a name of its own")
    _REGISTERED[algorithm.name] = algorithm
    return algorithm
