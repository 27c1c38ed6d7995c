"""The text of `advance_requests`."""

from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.replace_once import Change, replace_once
from ascendfx.codegen.ascendc.kernels.vector_kernel import hand_over, through_queue
from ascendfx.ir.draft_tree import depths_of
from ascendfx.ir.step_state import HELD, NO_DRAFT

CAUSE = """\
// Why a token does not follow `total` emitted ones, or that it does. No stop token is negative
// where the token is not.
__aicore__ inline uint32_t Cause(const LocalTensor<int32_t>& places, uint32_t stops, int32_t token,
                                 int32_t total, int32_t limit, int32_t minimum) {
    if (total >= limit) {
        return FINISH_LIMIT;
    }
    if (token < 0) {
        return FINISH_NOT_FINITE;
    }
    for (uint32_t i = 0; i < STOP_COLUMNS; ++i) {
        if (total >= minimum && places.GetValue(stops + i) == token) {
            return FINISH_STOP;
        }
    }
    return FINISH_RUNS;
}
"""

PENALISED = """\
// Whether a request changes logits by what its text has.
__aicore__ inline bool IsPenalised(const LocalTensor<float>& options, uint32_t request) {
    const float repetition = options.GetValue(request + OPTION_REPETITION);
    return (repetition != 0.0f && repetition != 1.0f) ||
           options.GetValue(request + OPTION_PRESENCE) != 0.0f ||
           options.GetValue(request + OPTION_FREQUENCY) != 0.0f;
}
"""

_RATE = """\
// The rate behind a step: accepted drafts were tried, and the first one that was not accepted.
__aicore__ inline int32_t MovedRate(uint32_t rate, uint32_t accepted, uint32_t drafted) {
    const uint32_t tried = accepted < drafted ? accepted + 1 : accepted;
    return (rate * ((1 << RATE_SHIFT) - tried) + accepted * RATE_ONE) >> RATE_SHIFT;
}

// How many drafts pay at a rate; where none does, one is tried now and then.
__aicore__ inline int32_t ChosenDrafts(const LocalTensor<int32_t>& step, int32_t rate,
                                       int32_t steps) {
    uint32_t depth = 0;
    for (uint32_t i = 1; i <= DEPTH; ++i) {
        if (step.GetValue(i) <= rate) {
            depth += 1;
        }
    }
    if (depth == 0 && steps % RETRY_STEPS == 0) {
        depth = 1;
    }
    return depth;
}
"""

_EMIT = """\
const int32_t generated = places.GetValue(state + STATE_GENERATED);
const int32_t limit = places.GetValue(state + STATE_LIMIT);
const int32_t minimum = places.GetValue(state + STATE_MINIMUM);
for (int32_t j = 0; j <= accepted && finished == FINISH_RUNS; ++j) {
    const int32_t token = j < accepted ? places.GetValue(row + 1 + j) : newToken;
    finished =
        Cause(places, STOPS + i * STOP_COLUMNS, token, generated + emitted, limit, minimum);
    if (finished == FINISH_RUNS) {
        emitted += 1;
        results.SetValue(entry + emitted, token);
    }
}
if (finished == FINISH_RUNS && generated + emitted >= limit) {
    finished = FINISH_LIMIT;
}
places.SetValue(state + STATE_FINISHED, static_cast<int32_t>(finished));
places.SetValue(state + STATE_GENERATED, generated + emitted);
places.SetValue(state + STATE_STEPS, places.GetValue(state + STATE_STEPS) + 1);
"""

_ACCOUNT = """\
const int32_t proposed = places.GetValue(state + STATE_PROPOSED);
const int32_t allAccepted = places.GetValue(state + STATE_ACCEPTED);
places.SetValue(state + STATE_PROPOSED, proposed + drafted);
places.SetValue(state + STATE_ACCEPTED, allAccepted + accepted);
"""

_MOVE = """\
const int32_t rate = places.GetValue(state + STATE_RATE);
places.SetValue(state + STATE_RATE, MovedRate(rate, accepted, drafted));
"""

_CHOOSE = f"""\
if (places.GetValue(state + STATE_ADAPTIVE) != 0 && stepLocal.GetValue(1) > {HELD}) {{
    const int32_t chosen =
        ChosenDrafts(stepLocal, places.GetValue(state + STATE_RATE),
                     places.GetValue(state + STATE_STEPS));
    places.SetValue(state + STATE_DRAFTS, chosen);
}}
const int32_t wanted = places.GetValue(state + STATE_DRAFTS);
const int32_t most = static_cast<int32_t>(ROWS) - 1;
places.SetValue(state + STATE_DRAFTED, wanted < most ? wanted : most);
"""

_SLOTS = """\
const bool runs = places.GetValue(STATE + i * STATE_COLUMNS + STATE_FINISHED) == 0;
const uint32_t row = i * ROWS;
const uint32_t from = static_cast<uint32_t>(places.GetValue(POSITIONS + row)) / BLOCK_TOKENS;
for (uint32_t j = 0; j < ROWS; ++j) {
    const uint32_t position = static_cast<uint32_t>(places.GetValue(POSITIONS + row + j));
    const uint32_t column = position / BLOCK_TOKENS;
    int32_t slot = -1;
    if (runs && column < TABLE_BLOCKS) {
        const int32_t block = table.GetValue(i * TABLE_PITCH + column - from);
        if (block >= 0) {
            slot = block * BLOCK_TOKENS + position % BLOCK_TOKENS;
        }
    }
    results.SetValue(SLOTS + row + j, slot);
}
"""

_COUNT = """\
if (IsPenalised(options, i * OPTION_COLUMNS)) {
    const int32_t place = places.GetValue(STATE + i * STATE_COLUMNS + STATE_PLACE);
    const uint64_t ofPlace = static_cast<uint64_t>(place) * VOCABULARY;
    const uint32_t entry = EMITTED + i * (ROWS + 1);
    const int32_t emitted = results.GetValue(entry);
    for (int32_t j = 0; j < emitted; ++j) {
        const int32_t token = results.GetValue(entry + 1 + j);
        CopyOut(countsGm[ofPlace + token], addend, 1, 4, 0, 0);
    }
}
"""


_OF_TREE: Mapping[str, Sequence[Change]] = {
    _EMIT: (("places.GetValue(row + 1 + j) : newToken", "Along(places, i, j + 1) : newToken"),),
    _ACCOUNT: (("proposed + drafted", "proposed + DepthOf(drafted)"),),
    _MOVE: (("accepted, drafted)", "accepted, DepthOf(drafted))"),),
    _RATE: (("return depth;", "return DraftsTo(depth);"),),
    _SLOTS: (("GetValue(POSITIONS + row + j))", "GetValue(POSITIONS + row)) + j"),),
}
"""What differs where the rows are nodes of a tree: the text that a chain has, and the tree's."""


def tree_text(parents: Sequence[int]) -> str:
    """Return what tells of a tree, as text."""
    depths = depths_of(parents)
    packed = sum(depth << 4 * node for node, depth in enumerate(depths))
    ends = (sum(each <= depth for each in depths) - 1 for depth in range(max(depths) + 1))
    drafts = sum(end << 4 * depth for depth, end in enumerate(ends))
    return f"""\
// Four bits for the depth of each node, and for the drafts up to each depth.
constexpr uint64_t DEPTHS = 0x{packed:x};
constexpr uint64_t DRAFTS_TO = 0x{drafts:x};

__aicore__ inline int32_t DepthOf(uint32_t node) {{
    return static_cast<int32_t>((DEPTHS >> (4 * node)) % 16);
}}

__aicore__ inline int32_t DraftsTo(uint32_t depth) {{
    return static_cast<int32_t>((DRAFTS_TO >> (4 * depth)) % 16);
}}

// The token at a depth of the accepted path.
__aicore__ inline int32_t Along(const LocalTensor<int32_t>& places, uint32_t i, uint32_t depth) {{
    const int32_t node = places.GetValue(PATH + i * ROWS + depth);
    return places.GetValue(IDS + i * ROWS + node);
}}
"""


def drafts_text(*, tree: bool) -> str:
    """Return what decides about the number of drafts, as text."""
    return "\n".join(_lines(_RATE, tree=tree)) + "\n"


def _lines(text: str, *, tree: bool) -> list[str]:
    return replace_once(text, *(_OF_TREE[text] if tree else ())).splitlines()


def write_step_number(out: CppWriter, *, drafting: bool, synced: bool) -> None:
    """Read which entry of the ring this step fills, and the rates from which drafts pay."""
    size = "(1 + DEPTH) * 4" if drafting else "4"
    with through_queue(out, "stepQueue", "stepLocal", "int32_t"):
        out.line(f"CopyIn(stepLocal, stepGm, 1, {size}, 0, 0);")
    out.line("const int32_t number = stepLocal.GetValue(0);")
    out.line("const uint64_t ring = static_cast<uint64_t>(number % RING_STEPS) * REQUESTS;")
    if synced:
        out.line("CrossCoreSetFlag<0, PIPE_MTE2>(0);")


def write_step_back(out: CppWriter, *, synced: bool) -> None:
    """Count the step, once every core has read its number."""
    if synced:
        out.line("CrossCoreWaitFlag(0);")
    with out.block("if (GetBlockIdx() == 0)"):
        out.line("stepLocal.SetValue(0, number + 1);")
        hand_over(out, "stepQueue", "stepLocal", "int32_t")
        out.line("CopyOut(stepGm, stepLocal, 1, 4, 0, 0);")
    out.line("stepQueue.FreeTensor(stepLocal);")


def write_addend(out: CppWriter) -> None:
    """Make what an emitted token adds to its count."""
    with through_queue(out, "addendQueue", "addend", "int32_t"):
        out.line("addend.SetValue(0, 2);")


def write_tile(out: CppWriter, drafts: int, starts: Mapping[str, int], *, tree: bool) -> None:
    """Advance the places of one tile; ``drafts`` draft tokens each, or placeholders."""
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    with through_queue(out, "placeQueue", "places", "int32_t"):
        for region, tensor, width in _copied(starts):
            out.line(
                f"CopyIn({_region(region)}, {tensor}Gm[start{width}], 1, count{width} * 4, 0, 0);"
            )
    out.line("LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();")
    with (
        through_queue(out, "tableQueue", "table", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        _write_place(out, drafts, tree=tree)
    with out.block("for (uint32_t i = 0; i < count; ++i)"):
        out.lines(_lines(_SLOTS, tree=tree))
    hand_over(out, "resultQueue", "results", "int32_t")
    hand_over(out, "placeQueue", "places", "int32_t")
    _write_results(out)
    _write_counts(out)
    for queue, variable in (("result", "results"), ("table", "table"), ("place", "places")):
        out.line(f"{queue}Queue.FreeTensor({variable});")


def _copied(starts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return region, tensor and width of what is copied in, as text."""
    tensors = {
        "IDS": ("token_ids", " * ROWS"),
        "POSITIONS": ("positions", " * ROWS"),
        "STATE": ("state", " * STATE_COLUMNS"),
        "STOPS": ("stop_ids", " * STOP_COLUMNS"),
        "OPTIONS": ("options", " * OPTION_COLUMNS"),
        "ACCEPTED": ("accepted", ""),
        "NEW": ("new_tokens", ""),
        "PATH": ("path", " * ROWS"),
    }
    return [(region, *tensors.get(region, (region.lower(), ""))) for region in starts]


def _region(name: str) -> str:
    """Return a region of the places, as text."""
    return f"places[{name}]" + (".ReinterpretCast<float>()" if name == "OPTIONS" else "")


def _write_place(out: CppWriter, drafts: int, *, tree: bool) -> None:
    out.lines(
        (
            "const uint32_t row = IDS + i * ROWS;",
            "const uint32_t state = STATE + i * STATE_COLUMNS;",
            "const uint32_t entry = EMITTED + i * (ROWS + 1);",
            "const int32_t accepted = places.GetValue(ACCEPTED + i);",
            "const int32_t newToken = places.GetValue(NEW + i);",
            "const int32_t drafted = places.GetValue(state + STATE_DRAFTED);",
            "uint32_t finished = static_cast<uint32_t>(places.GetValue(state + STATE_FINISHED));",
            "int32_t emitted = 0;",
        )
    )
    with out.block("if (finished == FINISH_RUNS)"):
        out.lines(_lines(_EMIT, tree=tree))
        if drafts:
            out.lines(_lines(_MOVE, tree=tree))
    out.line("results.SetValue(entry, emitted);")
    with out.block("for (uint32_t j = emitted; j < ROWS; ++j)"):
        out.line("const bool rejected = static_cast<int32_t>(j) <= drafted;")
        out.line(f"results.SetValue(entry + 1 + j, rejected ? -1 : {NO_DRAFT});")
    with out.block("if (finished == FINISH_RUNS)"):
        out.line(
            "const int32_t length = places.GetValue(state + STATE_LENGTH) + accepted + 1;",
        )
        out.line("places.SetValue(state + STATE_LENGTH, length);")
        out.lines(_lines(_ACCOUNT, tree=tree))
        if drafts:
            out.lines(_CHOOSE.splitlines())
        else:
            out.line("places.SetValue(state + STATE_DRAFTED, 0);")
        out.line("places.SetValue(row, newToken);")
        for draft in range(drafts):
            out.line(f"places.SetValue(row + {draft + 1}, places.GetValue(DRAFT_{draft} + i));")
        with out.block("for (uint32_t j = 0; j < ROWS; ++j)"):
            behind = "DepthOf(j)" if tree else "j"
            out.line(f"places.SetValue(POSITIONS + i * ROWS + j, length + {behind});")
            if not drafts:
                with out.block("if (j > 0)"):
                    out.line("places.SetValue(row + j, 0);")
        out.line("const uint32_t column = static_cast<uint32_t>(length) / BLOCK_TOKENS;")
        with out.block("if (column < TABLE_BLOCKS)"):
            out.lines(
                (
                    "const uint32_t behind = TABLE_BLOCKS - column;",
                    "const uint32_t columns = TABLE_COLUMNS < behind ? TABLE_COLUMNS : behind;",
                    "const uint64_t source = static_cast<uint64_t>(start + i) * TABLE_BLOCKS;",
                    "CopyIn(table[i * TABLE_PITCH], block_tableGm[source + column], 1, "
                    "columns * 4, 0, 0);",
                )
            )


def _write_results(out: CppWriter) -> None:
    for tensor, region in (("token_ids", "places[IDS]"), ("positions", "places[POSITIONS]")):
        out.line(f"CopyOut({tensor}Gm[start * ROWS], {region}, 1, count * ROWS * 4, 0, 0);")
    out.line("CopyOut(slotsGm[start * ROWS], results[SLOTS], 1, count * ROWS * 4, 0, 0);")
    out.line(
        "CopyOut(stateGm[start * STATE_COLUMNS], places[STATE], 1, count * STATE_COLUMNS * 4, "
        "0, 0);"
    )
    out.line(
        "CopyOut(emittedGm[(ring + start) * (ROWS + 1)], results[EMITTED], 1, count * (ROWS + 1) * "
        "4, 0, 0);"
    )


def _write_counts(out: CppWriter) -> None:
    """Count what requests with penalties emit; a token that comes twice counts twice."""
    out.line(f"const LocalTensor<float> options = {_region('OPTIONS')};")
    out.line("SetAtomicAdd<int32_t>();")
    with out.block("for (uint32_t i = 0; i < count; ++i)"):
        out.lines(_COUNT.splitlines())
    out.line("SetAtomicNone();")
