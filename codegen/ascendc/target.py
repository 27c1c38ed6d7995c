"""Chip descriptions: every number a planner may use, with its source.

Sources: ``ini`` is the platform table of the CANN runtime (hicann/runtime 681ef761,
``src/platform/platform_config/cann/Ascend910B*.ini``); ``ARCH`` is the architecture page "NPU
architecture 2201" of the Ascend C programming guide (mirror-cann/asc-devkit 82b89a15).
"""

from dataclasses import dataclass

from ascendfx.ir.diagnostic import GraphError


@dataclass(frozen=True, slots=True)
class Target:
    """One chip of NPU architecture 2201 (Atlas A2).

    Attributes:
        name: Name accepted by ``compile(target=...)``.
        cube_cores: AIC per chip (ini ``ai_core_cnt``).
        vector_cores: AIV per chip (ini ``vector_core_cnt``); two per cube core.
        clock_mhz: Clock of the cube unit (ini ``cube_freq``).
        hbm_gib: Device memory in GiB (ini).
        l2_mib: Second-level cache in MiB (ini ``l2_size``).
        hbm_bytes_per_second: Published HBM bandwidth (msmodeling device table; 910B4 has half).
        unified_buffer: Bytes of UB a kernel may plan with: 196,608 − 256 − 8,192 reserved
            (ARCH; static-tensor programming guide).
        l1_buffer: Bytes of L1, less the 256 reserved (ARCH).
        l0a_buffer: Bytes of L0A (ini ``l0_a_size``).
        l0b_buffer: Bytes of L0B (ini ``l0_b_size``).
        l0c_buffer: Bytes of L0C (ini ``l0_c_size``).
        copy_granule: Bytes a plain copy moves at least (ini ``ubblock_size``).
        max_buffers: Buffers one kernel may own (InitBuffer page).
    """

    name: str
    cube_cores: int
    vector_cores: int
    clock_mhz: int
    hbm_gib: int
    l2_mib: int
    hbm_bytes_per_second: float
    unified_buffer: int = 196_608 - 256 - 8_192
    l1_buffer: int = 524_288 - 256
    l0a_buffer: int = 65_536
    l0b_buffer: int = 65_536
    l0c_buffer: int = 131_072
    copy_granule: int = 32
    max_buffers: int = 64


_TARGETS = (
    Target("ascend910b1", 24, 48, 1850, 64, 192, 1.6e12),
    Target("ascend910b2", 24, 48, 1800, 64, 192, 1.6e12),
    Target("ascend910b3", 20, 40, 1800, 64, 192, 1.6e12),
    Target("ascend910b4", 20, 40, 1500, 32, 96, 0.8e12),
)
_ALIASES = {"ascend910b": "ascend910b2"}


def target_names() -> tuple[str, ...]:
    """Return every accepted name, aliases last."""
    return (*(target.name for target in _TARGETS), *_ALIASES)


def find_target(name: str) -> Target:
    """Return the chip called ``name``; ``ascend910b`` stands for ``ascend910b2``.

    Raises:
        GraphError: No chip has that name.
    """
    for target in _TARGETS:
        if target.name == _ALIASES.get(name, name):
            return target
    raise GraphError(
        code="unknown-target",
        reason=f"no target is called `{name}`",
        hint=f"known targets: {', '.join(target_names())}",
    )
