"""Every entry of a draft layer's cache follows the shifted convention: checked on a fused step."""

from dataclasses import dataclass
from typing import NoReturn, cast

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    BranchDrafts,
    CacheRead,
    CacheWrite,
    GatherRows,
    MoveEntries,
    PackRows,
    RaggedAttention,
    Rotary,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
)
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import (
    DRAFT_CACHE_PREFIX,
    DRAFT_IDS,
    DRAFT_PROBS,
    HIDDEN_CACHE,
    KNOWN_TOKENS,
    LOGIT_POSITIONS,
    LOGIT_REQUESTS,
    LOGIT_ROWS,
    RECENT,
)
from ascendfx.passes.trace_step import Root, Step, StepTrace, Trace, trace_step

_KEPT = (DRAFT_IDS, DRAFT_PROBS)
_ENDS = (LOGIT_ROWS, LOGIT_POSITIONS, LOGIT_REQUESTS)


def check_shifted_convention(program: Program) -> int:
    """Check what the licence of a fused draft layer supposes of the steps that run it.

    The convention: at depth ``j``, the entry at position ``p`` of a request is made of the token at
    ``p + 1 + j`` and of the hidden state of row ``p``, is rotated by ``p`` and stands where the
    main model's entry of ``p`` stands. It holds for every entry that is ever read if it holds for
    every entry that is written, in prefill and decode steps, and if no entry is read that a step
    has shown to be wrong. So in each step:

    * where rows of the step are packed, they are its own, and tokens that are verified, too;
    * the ids of depth 0 are `shift_tokens` of the step's own ids, those of depth ``j`` of depth
      ``j - 1``, with one and the same last row per request, and the token that was sampled or
      drafted behind it; at the end of a chunk of the prompt, with the prompt's own next token;
    * all depths have the positions, slots, request numbers and block table of the main layers, and
      rotations read tables of just these positions; where only last rows attend, positions and
      request numbers are chosen like these;
    * with several depths, entries made of rejected drafts must be written again: in a decode step
      ids, positions, slots and last rows are those of `align_drafts`, for all depths alike, and
      hidden states of the main model are looked up for the same rows;
    * each cache is written once per step, at one depth, and read at that depth alone;
    * what the draft of a depth was drawn from is kept at that depth until it is verified;
    * in a step with a draft tree, the rows of drafts are aligned along the path that was verified;
      the next depth reads the first candidate of each depth, and the next step verifies all of
      them; entries of draft layers are not moved, because they are made of a chain.

    Args:
        program: A decode or prefill step, after `FuseMtp`.

    Returns:
        The number of depths.

    Raises:
        GraphError: A condition does not hold.
    """
    trace = trace_step(program)
    rows = _rows_of(trace)
    ids = _chain(trace, rows)
    for step in trace.of(GatherRows):
        _check_choice(step, ids, rows)
    for step in trace.of(Rotary):
        _check_rotation(step, ids, rows)
    depths = {
        name: int(name[len(DRAFT_CACHE_PREFIX) :].split(".")[0])
        for name in trace.inputs
        if _own(name)
    }
    if depths and max(depths.values()) >= len(ids):
        _refuse(f"there are caches of depth {max(depths.values())}, and {len(ids)} shifts of ids")
    for name, depth in depths.items():
        _check_cache(trace, rows, name, ids[: depth + 1])
    seen = _seen_rows(trace, rows)
    for step in trace.of(RaggedAttention):
        _check_attention(step, depths, ids, rows, seen)
    for step in trace.of(MoveEntries):
        if any(map(_own, frozenset[str]().union(*(each.caches for each in step.operands)))):
            _refuse("entries of a draft layer are moved, but its rows are a chain", step.location)
    _check_drawn(trace, ids)
    return len(ids)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What all depths of a step share.

    Attributes:
        token_ids: Ids of the step's own rows.
        first: Ids of depth 0 if they are no shift.
        positions: Of draft rows.
        slots: Of draft rows.
        last: The last row of each request.
        ends: Results that could be taken for the last row.
        new: The token behind it.
        known: The prompt's next tokens, in a prefill step.
        requests: The request of each row.
        table: The blocks of each request.
    """

    token_ids: Root
    first: Root | None
    positions: Root
    slots: Root
    last: Root
    ends: frozenset[Root]
    new: Root
    known: Root | None
    requests: Root
    table: Root


def _own(name: str) -> bool:
    return name.startswith(DRAFT_CACHE_PREFIX)


def _rows_of(trace: StepTrace) -> _Rows:
    given = {name: each.root for name, each in trace.inputs.items()}
    inputs, start = _packed(trace, given)
    verified, aligned = trace.verified, trace.of(AlignDrafts)
    shared = [(given if aligned else inputs)["row_request"], given["block_table"]]
    positions, slots = inputs["positions"], inputs["slots"]
    if not trace.of(AdvanceRequests):
        last, known = inputs[LOGIT_ROWS], inputs.get(KNOWN_TOKENS)
        new = trace.outputs[0].root
        ends = frozenset(inputs[name] for name in _ENDS if name in inputs)
        return _Rows(inputs["token_ids"], None, positions, slots, last, ends, new, known, *shared)
    if len(verified) != 1 or len(aligned) > 1:
        _refuse("a decode step verifies its drafts once, and aligns their rows at most once")
    accepted, last, new, *path = (each.root for each in verified[0].results)
    if verified[0].operands[0].root != inputs["token_ids"]:
        _refuse("other tokens are verified than those of the step", verified[0].location)
    if path and not aligned:
        _refuse("rows of drafts are those of a tree", verified[0].location)
    first, ends = None, frozenset({last, accepted})
    for step in aligned:
        names = ("token_ids", "block_table", "state")
        wanted = (*(given[name] for name in names), accepted, new, given[RECENT], *path, *start)
        if tuple(each.root for each in step.operands) != wanted:
            _refuse("rows are aligned by other tensors than those of the step", step.location)
        first, positions, slots, last = (each.root for each in step.results[:4])
        _check_hidden(trace, step)
    return _Rows(inputs["token_ids"], first, positions, slots, last, ends, new, None, *shared)


def _packed(trace: StepTrace, given: dict[str, Root]) -> tuple[dict[str, Root], list[Root]]:
    """Return the rows of the main model among the inputs, and where they start if packed."""
    packs = trace.of(PackRows)
    if not packs:
        return given, []
    names = ("token_ids", "positions", "slots", "row_request")
    operands, results = ([each.root for each in part] for part in packs[0][1:3])
    if len(packs) > 1 or operands[:4] != [given[name] for name in (*names[:3], "state")]:
        _refuse("other rows are packed than those of the step, or twice", packs[-1].location)
    return {**given, **dict(zip(names, results, strict=False))}, results[4:5]


def _check_hidden(trace: StepTrace, aligned: Step) -> None:
    kept = [step for step in trace.of(CacheWrite) if HIDDEN_CACHE in step.operands[0].caches]
    if len(kept) != 1 or kept[0].operands[1].root != aligned.results[4].root:
        _refuse(
            "hidden states of the main model are not kept where `align_drafts` says", *_at(kept)
        )
    for step in trace.of(GatherRows):
        table, found = step.operands
        if HIDDEN_CACHE in table.caches and found.root != aligned.results[5].root:
            _refuse("hidden states are looked up for other rows than the ids", step.location)


def _chain(trace: StepTrace, rows: _Rows) -> list[Root]:
    """Return the ids of each depth."""
    shifts = trace.of(ShiftTokens)
    ids = [] if rows.first is None else [rows.first]
    several = len(ids) + len(shifts) > 1
    if several and rows.first is None and trace.of(AdvanceRequests):
        _refuse(
            "entries of deeper draft layers that are made of rejected drafts stay as they are",
            *_at(shifts),
        )
    drafted: Root | None = None
    for step in shifts:
        depth = len(ids)
        before, last, requests, new, *known = step.operands
        op = cast("ShiftTokens", step.op)
        if op.depth != depth or before.root != (ids[-1] if ids else rows.token_ids):
            _refuse(
                f"the ids of depth {depth} are a shift at depth {op.depth} of other ids than those "
                "one depth before",
                step.location,
            )
        if last.root != rows.last or requests.root != rows.requests:
            _refuse(f"depth {depth} has another last row than the step", step.location)
        if [each.root for each in known] != ([] if rows.known is None else [rows.known]):
            _refuse(
                f"depth {depth} does not take the prompt's next tokens at the end of a chunk",
                step.location,
            )
        made = ids[-1] in new.tokens if ids else new.root == rows.new
        made = made and not (new.root.value.result and trace.of(BranchDrafts))
        if not made or (depth > 1 and new.root == drafted):
            _refuse(f"the token behind the last row of depth {depth} is another", step.location)
        drafted = new.root
        ids.append(step.results[0].root)
    return ids


def _check_choice(step: Step, ids: list[Root], rows: _Rows) -> None:
    table, chosen = step.operands
    if table.tokens & set(ids) and chosen.root in rows.ends and chosen.root != rows.last:
        _refuse("a draft is taken from another row than the last one", step.location)


def _check_rotation(step: Step, ids: list[Root], rows: _Rows) -> None:
    x, *tables = step.operands
    if not x.tokens & set(ids):
        return
    for table in tables:
        if not table.positions <= {rows.positions}:
            _refuse("a draft layer is rotated by other positions than its rows have", step.location)
        if table.moved:
            _refuse("a draft layer is rotated by positions that are moved", step.location)


def _check_cache(trace: StepTrace, rows: _Rows, name: str, ids: list[Root]) -> None:
    depth = len(ids) - 1
    writes = [step for step in trace.of(CacheWrite) if name in step.operands[0].caches]
    if len(writes) != 1:
        _refuse(f"`{name}` is written {len(writes)} times in a step", *_at(writes[1:]))
    _, slots, entry = writes[0].operands
    if slots.root != rows.slots:
        _refuse(f"entries of `{name}` go to other slots than the rows of the step", *_at(writes))
    if not _of_depth(entry, ids, rows):
        _refuse(f"entries of `{name}` are not made of the ids of depth {depth}", *_at(writes))
    for step in trace.of(CacheRead):
        if name in step.operands[0].caches and step.operands[1].root != rows.table:
            _refuse(f"`{name}` is read through another block table", step.location)


def _seen_rows(trace: StepTrace, rows: _Rows) -> set[tuple[Root, Root]]:
    """Return the positions and request numbers that rows may attend with: all, or the last ones."""
    last: dict[Root, list[Root]] = {rows.positions: [], rows.requests: []}
    for step in trace.of(GatherRows):
        table, chosen = step.operands
        if table.root in last and chosen.root == rows.last:
            last[table.root].append(step.results[0].root)
    pairs = {(p, r) for p in last[rows.positions] for r in last[rows.requests]}
    return {(rows.positions, rows.requests), *pairs}


def _check_attention(
    step: Step,
    depths: dict[str, int],
    ids: list[Root],
    rows: _Rows,
    seen: set[tuple[Root, Root]],
) -> None:
    roles = cast("RaggedAttention", step.op).roles(step.operands)
    read = {name for each in (*roles.keys, roles.values) for name in each.caches}
    found = {depths[name] for name in read if name in depths}
    if not found:
        if any(each.tokens & set(ids) for each in roles.queries):
            _refuse("a draft layer attends to entries of the main model", step.location)
        return
    depth = found.pop()
    if found or not all(map(_own, read)):
        _refuse("an attention reads entries of several depths", step.location)
    of_rows = (roles.positions.root, roles.row_request.root)
    if of_rows not in seen or roles.ancestors is not None:
        _refuse(f"depth {depth} sees tokens up to other positions than its rows", step.location)
    if not any(_of_depth(each, ids[: depth + 1], rows) for each in roles.queries):
        _refuse(f"rows of another depth read the entries of depth {depth}", step.location)


def _check_drawn(trace: StepTrace, ids: list[Root]) -> None:
    """Check that drafts are drawn, kept, handed on and looked up in the order of their depths."""
    kept = [trace.inputs[name].root for name in _KEPT if name in trace.inputs]
    for step in trace.of(SampleTokens):
        if kept and [each.root for each in step.operands[-2:]] != kept:
            _refuse("tokens are chosen by other drafts than those of the step", step.location)
    drawn = [step for step in trace.steps if isinstance(step.op, BranchDrafts | SampleDrafts)]
    for depth, step in enumerate(drawn):
        logits, *operands = step.operands
        op = cast("BranchDrafts | SampleDrafts", step.op)
        accepted = operands[2] if isinstance(op, BranchDrafts) else operands[3]
        if (
            op.depth != depth
            or ids[depth] not in logits.tokens
            or logits.tokens & {*ids[depth + 1 :]}
        ):
            _refuse(f"draft {op.depth} is drawn from logits of another depth", step.location)
        if accepted.root != trace.verified[0].results[0].root:
            _refuse(f"draft {depth} is drawn behind another token", step.location)
        if isinstance(op, SampleDrafts):
            if [each.root for each in operands[4:]] != kept:
                _refuse(f"what draft {depth} is drawn from is kept elsewhere", step.location)
            kept = [each.root for each in step.results[1:]]
    for step in trace.of(AdvanceRequests) if drawn else ():
        op = cast("AdvanceRequests", step.op)
        made = [
            each.root
            for step in drawn
            for each in (step.results if isinstance(step.op, BranchDrafts) else step.results[:1])
        ]
        path = [each.root for each in trace.verified[0].results[3:]]
        if [each.root for each in step.operands[op.fixed - len(path) :]] != [*path, *made]:
            _refuse("the next step verifies other drafts than those drawn", step.location)


def _of_depth(value: Trace, ids: list[Root], rows: _Rows) -> bool:
    return ids[-1] in value.tokens and value.tokens <= {rows.token_ids, *ids}


def _at(steps: list[Step]) -> list[Location]:
    return [step.location for step in steps[:1]]


def _refuse(reason: str, location: Location = UNKNOWN) -> NoReturn:
    raise GraphError(
        code="shifted-convention",
        reason=reason,
        location=location,
        hint="at depth j row p holds the token at p + 1 + j, at the position and slot of row p, in "
        "every step: fuse draft layers with the pass fuse-mtp, and leave what it made together",
    )
