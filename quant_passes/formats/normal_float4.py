"""Four-bit codebooks of bitsandbytes: NF4 for normal weights, and its FP4."""

from ascendfx.quant_passes.formats.codebook import Codebook

NF4 = Codebook(
    (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ),
    name="nf4",
)
"""NormalFloat4: quantiles of the normal distribution, scaled to [-1, 1], with an exact zero.

Source: Dettmers et al., "QLoRA", arXiv 2305.14314, appendix E; float32 values of bitsandbytes.
"""

_MAGNITUDES = (
    *(0.0, 0.0052083334885537624, 0.6666666865348816, 1.0),
    *(0.3333333432674408, 0.5, 0.1666666716337204, 0.25),
)
FP4 = Codebook((*_MAGNITUDES, *(-each for each in _MAGNITUDES)), name="fp4")
"""The FP4 of bitsandbytes: its codes are not in the order of their values; code 8 is a second zero
that is read but never written."""
