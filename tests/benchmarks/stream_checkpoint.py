"""Memory and time to quantize a checkpoint of V3's widths to W4A8, and what kills cost.

    python tests/benchmarks/stream_checkpoint.py [--layers N] [--experts N] [--kills N]

The source has V3's names and full widths in FP8 blocks, as sparse files. It is quantized by min-max
to ascendV1 twice in processes of their own: once in one go, and once killed (signal 9) at random
moments. With 256 experts and 3 layers it has about 30 GB on paper, and results of 15 GB each.
"""

import argparse
import hashlib
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from parts.sparse_v3 import write_sparse_v3

from ascendfx import quantization as q
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor, Scheme
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.runtime.checkpoint.dry_run import dry_run
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint

GIB = 1 << 30
KEPT = ("kv_b_proj", "mlp.gate.", "embed_tokens", "lm_head", "norm")


def planned(source: Checkpoint, name: str) -> PlannedTensor:
    """Return a tensor of the W4A8 policy: experts int4, other projections int8."""
    shape = source.shape(name)
    dtype = DType.BF16 if source.is_quantized(name) else source.dtype(name)
    if len(shape) != 2 or any(part in name for part in KEPT):
        return PlannedTensor(name, shape, dtype, None, lambda: source.weight(name))
    form = q.Integer(4 if ".experts." in name else 8)
    spec = q.WeightSpec(form, q.PerChannel(), q.MSMODELSLIM)

    def make() -> SavedWeight:
        found = q.algorithm_named("min_max").quantize(source.load(name), spec)
        return SavedWeight(found.tensor, "dynamic")

    return PlannedTensor(name, shape, dtype, Scheme(form, spec.granularity, "dynamic"), make)


def plan_of(folder: Path) -> tuple[list[PlannedTensor], WriteOptions]:
    """Return what a checkpoint becomes."""
    source = open_checkpoint(folder)
    return [planned(source, name) for name in source.keys()], WriteOptions(source.config)  # noqa: SIM118


def quantize(source: Path, place: Path, peak: Path) -> None:
    """Quantize, and note the peak of memory in KiB."""
    plan, options = plan_of(source)
    write_checkpoint(place, plan, AscendForm(), options)
    peak.write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


def run(source: Path, place: Path, *, seconds: float | None = None) -> tuple[float, int | None]:
    """Quantize in a process, killed after a time; return the time, and the peak if it ended."""
    peak = place.with_suffix(".peak")
    child = multiprocessing.get_context("spawn").Process(
        target=quantize, args=(source, place, peak)
    )
    start = time.perf_counter()
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
        return time.perf_counter() - start, None
    if child.exitcode:
        raise SystemExit(f"the run ended with {child.exitcode}")
    return time.perf_counter() - start, int(peak.read_text()) * 1024


def digest(folder: Path) -> str:
    """Return a hash of all files."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            total.update(file.name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()


def main() -> None:
    """Print sizes, peaks and times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where there is room for two results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, once, killed = (Path(folder) / name for name in ("v3", "once", "killed"))
        size = write_sparse_v3(source, layers=options.layers, experts=options.experts)
        plan, write_options = plan_of(source)
        found = dry_run(plan, AscendForm(), write_options)
        print(f"source {size / 1e9:.1f} GB on paper, {len(plan)} weights")
        for kind in found.kinds:
            print(f"  {kind.tensors:5} {kind.kind:45} {kind.bytes / 1e9:7.2f} GB")
        seconds, peak = run(source, once)
        assert peak is not None
        largest = 4 * found.largest
        print(f"dry run: {found.bytes / 1e9:.1f} GB in {found.seconds:.0f} s without the disk")
        print(f"one run: {seconds:.0f} s, {size / seconds / 1e6:.0f} MB/s")
        limit = 2 * largest + 2 * GIB
        print(
            f"peak {peak / GIB:.2f} GiB; largest tensor in f32 {largest / GIB:.2f} GiB, twice that "
            f"and 2 GiB are {limit / GIB:.2f} GiB"
        )
        random = np.random.default_rng(0)
        moments = [seconds * random.uniform(0.1, 0.9) / 2 for _ in range(options.kills)]
        spent = [run(source, killed, seconds=each)[0] for each in (*moments, None)]
        same = digest(once) == digest(killed)
        print(f"{options.kills} kills: {sum(spent):.0f} s in all, the same bytes: {same}")
        if not same:
            raise SystemExit("results differ")


if __name__ == "__main__":
    main()
