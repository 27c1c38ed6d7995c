"""Chip descriptions: every number a planner may use, with its source.

Sources: ``ini`` is the platform table of the CANN runtime (hicann/runtime 681ef761,
``src/platform/platform_config/cann/Ascend910B*.ini``); ``ARCH`` is the architecture page "NPU
architecture 2201" of the Ascend C programming guide (mirror-cann/asc-devkit 82b89a15). Rates: see
`Rates`.
"""

from dataclasses import dataclass

from ascendfx.ir.diagnostic import GraphError


@dataclass(frozen=True, slots=True)
class Rates:
    """Throughput of the units, for the cost model; equal for every chip of architecture 2201.

    Sources: ``PERF`` are the theoretical tables of cube and vector instructions (cannmirror/
    asc-devkit 0da921b9, docs/zh/api, appendix), ``SAMPLE`` the measured tables of its
    ``examples/01_simd_cpp_api/05_best_practices`` (910B1), ``PYPTO`` the simulator constants of
    hicann/pypto f771e1f9 (framework/src/cost_model/simulation_ca/A2A3), ``MSM`` the device table
    of Ascend/msmodeling 84fec85.

    Attributes:
        cube_products: Multiply-adds per cycle and cube core of 16-bit formats: 16 x 16 x 16 (PERF).
        cube_products_f32: The same for f32: 16 x 16 x 4 (PERF).
        cube_products_i8: The same for int8: 16 x 16 x 32 (PERF).
        cube_products_i4: The same for int4: 16 x 16 x 64 (PERF).
        vector_lanes: f32 elements per cycle and vector core of a full-rate instruction (PERF).
        cube_efficiency: 3022.9 us of ideal multiplication in a task of 4012 us (SAMPLE
            ``matmul_high_performance``, 8192 cubed, last row).
        vector_efficiency: 5.90 us of ideal addition in 12.85 us of vector time (SAMPLE
            ``add_high_performance``, without a lay-out of the banks).
        cube_memory_efficiency: 1.41 of 1.6 TB/s, copy to L1 in fractals (SAMPLE ``data_copy``).
        vector_memory_efficiency: 1.49 of 1.6 TB/s, copy to UB (SAMPLE ``data_copy``).
        cache_bytes_per_second: 4.94 TB/s, copy from the second-level cache to L1, derived from four
            passes with 75 % hits (SAMPLE ``data_copy``).
        cube_launch_seconds: Static launch of a matrix product (MSM).
        vector_launch_seconds: Static launch of a vector kernel (MSM).
        start_up_cycles: First read, 347, and last write, 203, of device memory (PYPTO).
    """

    cube_products: int = 16 * 16 * 16
    cube_products_f32: int = 16 * 16 * 4
    cube_products_i8: int = 16 * 16 * 32
    cube_products_i4: int = 16 * 16 * 64
    vector_lanes: int = 64
    cube_efficiency: float = 3022.9 / 4012
    vector_efficiency: float = 5.90 / 12.85
    cube_memory_efficiency: float = 1.41 / 1.6
    vector_memory_efficiency: float = 1.49 / 1.6
    cache_bytes_per_second: float = 4.94e12
    cube_launch_seconds: float = 5e-6
    vector_launch_seconds: float = 2e-6
    start_up_cycles: int = 347 + 203


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
        rates: Throughput of the units.
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
    rates: Rates = Rates()


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
