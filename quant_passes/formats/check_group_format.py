"""What is checked of a format that brings scales of its own."""

from collections.abc import Iterator

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import Float64s, GroupFormat


def complaints_about_group_format(form: GroupFormat, seed: int) -> Iterator[str]:
    """Yield what a format with groups promises and does not keep, with one example each."""
    values = _probes(form, seed)
    codes = form.encode(values)
    decoded = form.decode(codes)
    if decoded.shape != values.shape or decoded.dtype != np.float64:
        yield f"arrays: {list(values.shape)} numbers become {decoded.dtype}{list(decoded.shape)}"
        return
    off, bound = np.abs(decoded - values), form.error_bound(values)
    wrong = ~(off <= bound)
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), values.shape)
        yield (
            f"error bound: {float(values[place])!r} becomes {float(decoded[place])!r}, off by more "
            f"than {float(bound[place])!r}"
        )
    most = float(np.abs(decoded).max())
    if most > form.largest:
        yield f"declaration: largest is {form.largest!r}, and {most!r} comes out"
    stored = 8 * codes.metadata.nbytes / values.size
    if not stored < form.bits:
        yield f"declaration: {form.bits} bits per value, of which the scales alone are {stored}"
    strided = np.repeat(values, 2, axis=0)[::2]
    if not np.array_equal(form.decode(form.encode(strided)), decoded):
        yield "arrays: a strided array becomes other numbers"
    if form.decode(form.encode(values[:0])).shape != (0, values.shape[1]):
        yield "arrays: an empty array becomes another shape"
    try:
        form.encode(values[:, : form.group - 1])
    except GraphError:
        return
    yield f"arrays: {form.group - 1} numbers are not a group, and are encoded"


def _probes(form: GroupFormat, seed: int) -> Float64s:
    """Return ``[groups, group]`` float32 numbers of many sizes: calm, with outliers, zero, huge."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal((256, form.group))
    heavy = normal * np.exp(2 * random.standard_normal(normal.shape))
    sizes = 2.0 ** random.integers(-60, 20, (256, 1))
    lonely = np.zeros((form.group, form.group))
    np.fill_diagonal(lonely, 3.0)
    uniform = random.uniform(-form.largest, form.largest, (16, form.group))
    parts = (normal, heavy, normal * sizes, heavy * sizes, lonely, uniform, 4 * uniform)
    return np.concatenate(parts).astype(np.float32).astype(np.float64)
