"""Memory and time to quantize a checkpoint of V3's widths to W4A8, and what kills cost.

    python tests/benchmarks/stream_checkpoint.py [--layers N] [--experts N] [--kills N]

The source has V3's names and full widths in FP8 blocks, as sparse files. It is quantized by min-max
to ascendV1 twice in processes of their own: once in one go, and once killed (signal 9) at random
moments, spread over what is written, and gone on with each time. Both must have the same bytes.
With ``--layers 4 --experts 256 --draft --kills 20`` the source has 43 GB on paper, a result 25 GB;
one result is on the disk at a time.
"""

import argparse
import hashlib
import multiprocessing
import resource
import shutil
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from parts.sparse_v3 import write_sparse_v3

from ascendfx import quantization as q
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor, Scheme
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.runtime.checkpoint.dry_run import dry_run
from ascendfx.runtime.checkpoint.journal import NAME
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint

GIB = 1 << 30
KEPT = ("kv_b_proj", "mlp.gate.", "embed_tokens", "head", "norm", "eh_proj")


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


def started(source: Path, place: Path) -> BaseProcess:
    """Quantize in a process."""
    child = multiprocessing.get_context("spawn").Process(
        target=quantize, args=(source, place, place.with_suffix(".peak"))
    )
    child.start()
    return child


def ended(child: BaseProcess, place: Path) -> int:
    """Wait for the end; return the peak of memory in bytes."""
    child.join()
    if child.exitcode:
        raise SystemExit(f"the run ended with {child.exitcode}")
    return int(place.with_suffix(".peak").read_text()) * 1024


def written(place: Path) -> int:
    """Return how many weights of an unfinished result its journal names."""
    journal = place.with_name(f".{place.name}.partial") / NAME
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


def killed_when(child: BaseProcess, place: Path, count: int, delay: float) -> bool:
    """Kill when so many weights are written and some seconds more; return whether it was alive."""
    while written(place) < count and child.exitcode is None:
        time.sleep(0.05)
    time.sleep(delay)
    alive = child.exitcode is None
    child.kill()
    child.join()
    return alive


def digest(folder: Path) -> str:
    """Return a hash of all files."""
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            total.update(file.name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()


def with_kills(source: Path, place: Path, counts: list[int], pause: float) -> tuple[int, int]:
    """Quantize with kills after so many weights; return how many there were, and the peak."""
    random, kills = np.random.default_rng(1), 0
    for count in counts:
        child = started(source, place)
        kills += killed_when(child, place, count, random.uniform(0, pause))
        print(f"  killed with {written(place)} weights written", flush=True)
    return kills, ended(started(source, place), place)


def main() -> None:
    """Print sizes, peaks and times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--draft", action="store_true", help="the last layer predicts a token more")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where there is room for a result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, once, killed = (Path(folder) / name for name in ("v3", "once", "killed"))
        size = write_sparse_v3(
            source, layers=options.layers, experts=options.experts, draft=options.draft
        )
        plan, write_options = plan_of(source)
        found = dry_run(plan, AscendForm(), write_options)
        print(f"source {size / 1e9:.1f} GB on paper, {len(plan)} weights")
        for kind in found.kinds:
            print(f"  {kind.tensors:5} {kind.kind:45} {kind.bytes / 1e9:7.2f} GB")
        print(f"dry run: {found.bytes / 1e9:.1f} GB in {found.seconds:.0f} s without the disk")
        start = time.perf_counter()
        peak = ended(started(source, once), once)
        seconds = time.perf_counter() - start
        print(f"one run: {seconds:.0f} s, {size / seconds / 1e6:.0f} MB/s")
        limit = 2 * 4 * found.largest + 2 * GIB
        print(
            f"peak {peak / GIB:.2f} GiB; twice the largest tensor in f32 and 2 GiB are "
            f"{limit / GIB:.2f} GiB",
            flush=True,
        )
        expected = digest(once)
        shutil.rmtree(once)
        random = np.random.default_rng(0)
        counts = sorted(random.integers(0, len(plan), options.kills).tolist())
        start = time.perf_counter()
        kills, most = with_kills(source, killed, counts, 2 * seconds / len(plan))
        spent = time.perf_counter() - start
        same = expected == digest(killed)
        print(
            f"{kills} kills: {spent:.0f} s in all, peak after the last {most / GIB:.2f} GiB, "
            f"the same bytes: {same}"
        )
        if not same:
            raise SystemExit("results differ")


if __name__ == "__main__":
    main()
