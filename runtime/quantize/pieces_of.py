"""The matrices by which a program projects, with their names in the checkpoint."""

from collections.abc import Collection, Iterator

from ascendfx.ir.program import Program
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.mixed_precision.unit import Piece
from ascendfx.runtime.checkpoint.packed_parameters import parts_of


def pieces_of(program: Program, stored: Collection[str]) -> Iterator[Piece]:
    """Yield the matrices of all sites whose weights a checkpoint has.

    Args:
        program: In the operations of the field.
        stored: Names of the tensors of the checkpoint.
    """
    for site in sites_of(program):
        parts = parts_of(site.key, site.experts) or ((site.key,),)
        out, columns = (int(size) for size in site.kind.shape[-2:])
        for expert, names in enumerate(parts):
            if all(name in stored for name in names):
                yield Piece(site.key, expert, names, (out, columns), site.experts)
