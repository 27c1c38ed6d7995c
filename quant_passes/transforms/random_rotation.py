"""Random orthogonal rotations."""

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.transforms.rotation import Rotation


def random_rotation(width: int, *, block: int | None = None, seed: int = 0) -> Rotation:
    """Return a rotation drawn evenly from all orthogonal matrices of the size of a block.

    Args:
        width: Channels.
        block: Size of blocks along the diagonal; all of the width if left out.
        seed: Of the matrix and the signs before it.

    Raises:
        GraphError: `bad-transform`: no width, or blocks that do not divide it.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups",
    arXiv math-ph/0609050: the factor Q of a normal matrix, with positive diagonal of R.
    """
    size = block or width
    if size < 1:
        reason = f"a rotation of {size} channels does not exist"
        raise GraphError("bad-transform", reason, hint="widths are positive")
    random = np.random.default_rng(seed)
    q, r = np.linalg.qr(random.standard_normal((size, size)))
    return Rotation(q * np.sign(np.diagonal(r)), random.choice([-1.0, 1.0], width))
