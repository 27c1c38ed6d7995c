"""What one launch does: products, slots of the vector unit and bytes, over the sizes of a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ascendfx.ir.cache_block import blocks_for
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.size import Dim, bind_size, named_size, simplify_size
from ascendfx.ir.tensor_type import DType

ROWS, REQUESTS, CONTEXT = named_size("rows"), named_size("requests"), named_size("context")

VISIBLE = named_size("visible")
"""Pairs of a query row and a key it may see, over all requests of a step."""

PACKED_VISIBLE = named_size("packed_visible")
"""The same of packed rows."""

READ_EXPERTS = named_size("read_experts")
"""Distinct experts that the rows of a step choose: the weights that are read."""


@dataclass(frozen=True, slots=True)
class StepSizes:
    """How large a step is.

    Attributes:
        rows: Token rows.
        requests: Requests; each has an equal share of the rows, its newest tokens.
        context: Tokens of each request, those of the step included.
        packed: Rows of the main model, where they are packed; 0: all of them.
    """

    rows: int
    requests: int
    context: int
    packed: int = 0

    @property
    def visible(self) -> int:
        """Pairs of a row and a key it may see.

        The rows of a request are its last ``n = rows / requests`` tokens and see
        ``context - n + 1 .. context`` keys.
        """
        return self._visible(self.rows)

    @property
    def packed_visible(self) -> int:
        """The same of packed rows."""
        return self._visible(self.packed or self.rows)

    def _visible(self, rows: int) -> int:
        each = -(-rows // self.requests)
        return rows * self.context - rows * (each - 1) // 2


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch does; every quantity is a size over the names of a step.

    Attributes:
        products: Multiply-adds of the cube unit.
        format: Format the cube multiplies in.
        vector_slots: Elements that pass through the vector unit, once per full-rate instruction; an
            instruction at half rate counts twice.
        bytes: Moved between device memory and the chip, everything once.
        rereads: Bytes that are read again, from the second-level cache.
        experts: Experts there are, for `READ_EXPERTS`; 0 without.
        chosen: Experts per row, for `READ_EXPERTS`.
        choosing: Rows that choose them, for `READ_EXPERTS`.
    """

    products: Dim = 0
    format: DType = DType.BF16
    vector_slots: Dim = 0
    bytes: Dim = 0
    rereads: Dim = 0
    experts: int = 0
    chosen: int = 0
    choosing: Dim = ROWS

    @property
    def operations(self) -> Dim:
        """Operations of both units: two per product, one per slot of the vector unit."""
        return simplify_size(2 * self.products + self.vector_slots)

    def with_bytes(self, more: Dim) -> "Work":
        """Return the work with bytes added."""
        return replace(self, bytes=simplify_size(self.bytes + more))

    def numbers(self, step: StepSizes) -> "WorkNumbers":
        """Return the quantities of one step."""
        names = step_names(step)
        read = expected_distinct(self.experts, self.chosen, bind_size(self.choosing, names))
        return WorkNumbers(
            products=_evaluate(self.products, names, read),
            format=self.format,
            vector_slots=_evaluate(self.vector_slots, names, read),
            bytes=_evaluate(self.bytes, names, read),
            rereads=_evaluate(self.rereads, names, read),
        )


NO_WORK = Work()


@dataclass(frozen=True, slots=True)
class WorkNumbers:
    """`Work` of one step; experts are an expectation, hence no integers."""

    products: float
    format: DType
    vector_slots: float
    bytes: float
    rereads: float

    @property
    def operations(self) -> float:
        """Operations of both units: two per product, one per slot of the vector unit."""
        return 2 * self.products + self.vector_slots


@dataclass(frozen=True, slots=True)
class KernelWork:
    """The work of one kernel of a plan, and where it comes from.

    Attributes:
        kernel: Name.
        graph: Graph of its first launch.
        work: Per launch.
        location: Line of the model, and module; not part of equality.
    """

    kernel: str
    graph: str
    work: Work
    location: str = field(default="", compare=False)


def step_names(step: StepSizes) -> Mapping[str, int]:
    """Return the value of each named size of a serving form."""
    table_blocks = blocks_for(step.context)
    return {
        "rows": step.rows,
        "requests": step.requests,
        "context": step.context,
        "table_blocks": table_blocks,
        "blocks": step.requests * table_blocks,
        "visible": step.visible,
        str(PACKED_ROWS): step.packed or step.rows,
        str(PACKED_VISIBLE): step.packed_visible,
    }


def expected_distinct(experts: int, chosen: int, rows: int) -> float:
    """Return how many distinct experts ``rows`` tokens read.

    ``E (1 - (1 - k/E)^rows)``: a token chooses k different ones of E experts, each equally likely,
    and so misses a given expert with probability 1 - k/E; tokens choose independently. The mean of
    a sum is the sum of the means, whatever the dependence between experts. Limiting a token to few
    groups does not change k/E, by symmetry. Real routers are less even, and read fewer.
    """
    return experts * (1 - (1 - chosen / experts) ** rows) if experts else 0.0


def _evaluate(size: Dim, names: Mapping[str, int], read: float) -> float:
    """Return a size that is of degree one in `READ_EXPERTS` as a number."""
    if isinstance(size, int):
        return float(size)
    fixed = bind_size(size, {**names, "read_experts": 0})
    slope = bind_size(size, {**names, "read_experts": 1}) - fixed
    return fixed + slope * read
