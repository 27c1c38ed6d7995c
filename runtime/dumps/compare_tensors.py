"""Two runs side by side: where they part, and how the error grows."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.runtime.dumps.tensor_dump import TensorDump


@dataclass(frozen=True, slots=True)
class Compared:
    """One value of both runs.

    Attributes:
        name: Module path, or the key of the value.
        max: Largest absolute difference.
        rms: Root of the mean square of the differences.
        sqnr: Power of the first run's values by that of the difference, in decibels.
        rounding: What the rounding of both runs explains.
        rows: Which rows were compared, as text; empty for all of them.
    """

    name: str
    max: float
    rms: float
    sqnr: float
    rounding: float
    rows: str = ""

    @property
    def diverged(self) -> bool:
        """Whether rounding does not explain the difference."""
        return not self.max <= self.rounding


@dataclass(frozen=True)
class Comparison:
    """Two runs.

    Attributes:
        values: What was compared, in order.
        not_compared: Module paths of what was not, with the reason; layers are told as one, ``*``.
    """

    values: list[Compared]
    not_compared: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What there is to say if no value diverged."""
        everything = "rounding explains every difference"
        if not self.not_compared:
            return everything
        return f"{everything} of the {len(self.values)} modules that were compared"


def compare_dumps(one: TensorDump, other: TensorDump) -> Comparison:
    """Compare value by value if both runs have the same ones, else by module path.

    Raises:
        GraphError: The runs have different texts, or nothing in common.
    """
    if one.tokens != other.tokens:
        texts = (f"{len(run.tokens)} tokens {_beginning(run.tokens)}" for run in (one, other))
        raise GraphError(
            "different-inputs",
            f"the runs have different inputs: {' and '.join(texts)}",
            hint="run `ascendfx tensors` on both with the same --tokens-seed and --verify-tokens",
        )
    theirs = {entry.key: entry for entry in other.entries}
    same = [entry.key for entry in one.entries] == [entry.key for entry in other.entries]
    if same:
        return Comparison(
            [
                _compared(
                    f"{entry.key} {entry.op} {entry.module}".strip(),
                    one.arrays[entry.key],
                    other.arrays[entry.key],
                    entry.rounding + theirs[entry.key].rounding,
                )
                for entry in one.entries
            ]
        )
    results = other.module_results()
    arrays = {path: other.arrays[entry.key] for path, entry in results.items()}
    rounding = {path: entry.rounding for path, entry in results.items()}
    return compare_modules(one, arrays, rounding)


def compare_modules(
    run: TensorDump, modules: Mapping[str, Array], rounding: Mapping[str, float] | None = None
) -> Comparison:
    """Compare what the modules of a model returned with the values of a run.

    Behind its last layer a serving form has the rows alone that are asked for, the last ones: with
    results ``[tokens, n]`` of a module those are compared.

    Args:
        run: Of a captured or rewritten program.
        modules: Results by module path, for example of eager PyTorch.
        rounding: What their own rounding explains; that of the run if it is not known.

    Raises:
        GraphError: No module has a result of the same size in both.
    """
    found: list[Compared] = []
    results = run.module_results()
    own_paths = {entry.module for entry in run.entries}
    strange: list[tuple[str, str]] = []
    for path, entry in results.items():
        if path not in modules:
            if path in own_paths:  # a list of modules returns nothing
                strange.append((path, "only in the first run"))
            continue
        ours, theirs = run.arrays[entry.key], modules[path]
        if (pair := _common_rows(theirs, ours, len(run.tokens))) is None:
            strange.append((path, f"{_shape(ours)} beside {_shape(theirs)}"))
            continue
        own = rounding[path] if rounding else entry.rounding
        rows = max(len(run.tokens), 1)
        shown = "" if theirs.size == ours.size else f"last {len(pair[0])} of {rows} rows"
        found.append(replace(_compared(path, *pair, entry.rounding + own), rows=shown))
    strange += ((path, "only in the second run") for path in modules if path not in results)
    if not found:
        raise GraphError(
            "nothing-to-compare",
            "the two runs have no module with results of the same size",
            hint="run both on the same text, of the same model",
        )
    return Comparison(found, tuple(_by_layer(strange)))


def _common_rows(one: Array, other: Array, tokens: int) -> tuple[Array, Array] | None:
    """Return both if they have the same size, or their last rows if one has a row per token."""
    if one.size == other.size:
        return one.reshape(other.shape), other
    if not (one.ndim and other.ndim) or one.shape[-1] != other.shape[-1]:
        return None
    width = one.shape[-1]
    rows = [each.size // max(width, 1) for each in (one, other)]
    fewer = min(rows)
    larger = max((one, other), key=lambda each: each.size)
    if not 0 < fewer < max(rows) == tokens == larger.shape[-2]:
        return None
    flat = (each.reshape(-1, width)[-fewer:] for each in (one, other))
    return next(flat), next(flat)


def _by_layer(strange: list[tuple[str, str]]) -> Iterator[str]:
    counts = Counter((re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path), why) for path, why in strange)
    for (path, why), count in counts.items():
        yield f"{path} ({f'{count} modules, ' if count > 1 else ''}{why})"


def _shape(array: Array) -> str:
    return str(list(array.shape))


def first_divergence(compared: list[Compared]) -> Compared | None:
    """Return the first value that rounding does not explain."""
    return next((each for each in compared if each.diverged), None)


def compare_lines(compared: list[Compared]) -> list[str]:
    """Return the table of errors."""
    width = max(len(each.name) for each in compared)
    head = f"{'value':{width}} {'max':>9} {'rms':>9} {'SQNR dB':>8} {'rounding':>9}"
    return [
        head,
        *(
            f"{each.name:{width}} {each.max:9.2e} {each.rms:9.2e} {each.sqnr:8.1f} "
            f"{each.rounding:9.2e}"
            + ("  diverged" if each.diverged else "")
            + (f"  ({each.rows})" if each.rows else "")
            for each in compared
        ),
    ]


def _beginning(tokens: tuple[int, ...], shown: int = 8) -> str:
    return " ".join(map(str, tokens[:shown])) + (" ..." if len(tokens) > shown else "")


def _compared(name: str, one: Array, other: Array, rounding: float) -> Compared:
    if one.shape != other.shape:
        return Compared(name, math.inf, math.inf, -math.inf, rounding)
    with np.errstate(invalid="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        gap = np.where(same, 0.0, np.abs(one - other))
    gap = np.nan_to_num(gap, nan=np.inf, posinf=np.inf)
    power = float(np.mean(np.square(np.where(np.isfinite(one), one, 0.0)))) if one.size else 0.0
    noise = float(np.mean(np.square(gap))) if gap.size else 0.0
    sqnr = math.inf if noise == 0 else (10 * math.log10(power / noise) if power else -math.inf)
    return Compared(name, float(gap.max(initial=0.0)), math.sqrt(noise), sqnr, rounding)
