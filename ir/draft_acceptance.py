r"""The tokens behind the rows of a request, coupled with the drafts in these rows.

Every way to verify drafts is one way to choose, for each row, the token behind it: the draft that
stands there is accepted by being chosen. So drafts are compared afterwards in one way only
(`ascendfx.ir.ops.VerifyDrafts`), and requests of one batch may differ.

With ``p`` the distribution of the token behind a row, ``q`` that from which the draft ``d`` behind
it was drawn, and ``u`` the row's number of ``Stream.ACCEPT``:

* ``EXACT``: a token is drawn from ``p``, whatever the draft.
* ``REJECTION``: ``d`` if ``u q(d) < p(d)``, else a token drawn from ``max(p - q, 0)``. Distributed
  as ``p`` (Leviathan, Kalman and Matias, arXiv 2211.17192, theorem 3.5 and appendix A.1; Chen et
  al., arXiv 2302.01318, theorem 1); the draft is accepted with probability ``sum(min(p, q))``.
* ``BLOCK``: the drafts as a block. With ``P_0 = 1``, ``P_i = min(P_{i-1} p(d_i) / q(d_i), 1)`` and
  ``S_i = sum(max(P_i p - q, 0))`` at row ``i``, the longest prefix ``i`` with
  ``u_i < h_i = S_i / (S_i + 1 - P_i)``, or ``u_i < P_i`` behind the last draft, is accepted, and
  the token behind it is drawn from ``max(P_i p - q, 0)``, or ``p`` behind the last (Sun et al.,
  arXiv 2403.10444, algorithm 2). A row that no token follows is the last. Rows behind that draw
  from ``p``: should the drawn token be the draft, the row behind it continues the text.
* ``TYPICAL``, lossy: ``d`` if ``m(d) > min(THRESHOLD, SCALE exp(-H(m)))`` with ``m`` the
  distribution before filters and ``H`` its entropy in nats, else drawn from ``p`` (Cai et al.,
  arXiv 2401.10774, section 2.3.1).
* ``RELAXED``, lossy: ``d`` if it is among the ``RANKS`` most likely tokens of ``m`` and
  ``m(d) >= max(m) - THRESHOLD``, else drawn from ``p`` (TensorRT-LLM, "DeepSeek R1 MTP
  implementation and optimization", relaxed acceptance).

``m`` is ``softmax(logits / temperature)`` after penalties, with 1 for temperature 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.step_state import Option, Verification
from ascendfx.ir.token_choice import choice_weights, draw


@dataclass(frozen=True)
class Rows:
    """The rows of a request in a step: ``n`` tokens, the first emitted, the others drafts.

    Attributes:
        logits: ``[vocab]`` of each row after penalties and bans; None: no token follows.
        options: Of the request.
        drafts: ``[n - 1]``; those from ``valid`` on are placeholders.
        valid: Number of drafts.
        ids: ``[n - 1, kept]``, tokens that each draft was drawn from; negative: none.
        probabilities: ``[n - 1, kept]``, theirs. A draft that is not among the ids was certain.
        sampled: ``[n]``, the row's number of ``Stream.SAMPLE``.
        accepted: ``[n]``, that of ``Stream.ACCEPT`` of the token *in* the row.
    """

    logits: Sequence[Array | None]
    options: Array
    drafts: Array
    valid: int
    ids: Array
    probabilities: Array
    sampled: Array
    accepted: Array

    def p(self, row: int) -> Array | None:
        """Return the distribution of the token behind a row; None: no token follows."""
        logits = self.logits[row]
        if logits is None:
            return None
        weights = choice_weights(logits, self.options)
        return weights / weights.sum()

    def q(self, row: int) -> tuple[Array, Array]:
        """Return tokens and probabilities of the draft behind a row."""
        draft = self.drafts[row]
        known = (self.ids[row] >= 0) & (self.probabilities[row] > 0)
        ids = self.ids[row][known]
        if draft in ids:
            return ids, np.asarray(self.probabilities[row][known], np.float64)
        return np.array([draft]), np.ones(1)


def coupled_tokens(rows: Rows) -> list[int]:
    """Return the token behind each row; -1 where none follows."""
    kind = Verification(int(rows.options[Option.VERIFICATION]))
    block = _block_tokens(rows) if kind is Verification.BLOCK else {}
    return [block.get(row, _token(rows, row, kind)) for row in range(len(rows.logits))]


def _token(rows: Rows, row: int, kind: Verification) -> int:
    logits, p = rows.logits[row], rows.p(row)
    if logits is None or p is None:
        return -1
    if row < rows.valid:
        draft, u = int(rows.drafts[row]), float(rows.accepted[row + 1])
        if kind is Verification.REJECTION:
            ids, q = rows.q(row)
            if u * q[ids == draft][0] < p[draft]:
                return draft
            return draw_residual(p, ids, q, 1.0, float(rows.sampled[row]))
        lossy = {Verification.TYPICAL: is_typical, Verification.RELAXED: is_relaxed}
        if kind in lossy and lossy[kind](logits, rows.options, draft):
            return draft
    return draw(p, float(rows.sampled[row]))


def _block_tokens(rows: Rows) -> dict[int, int]:
    """Return the tokens of the accepted drafts and the one behind them."""
    prefix, found = 1.0, {0: -1}
    for row in range(rows.valid + 1):
        p, u = rows.p(row), float(rows.sampled[row])
        if p is None or row == rows.valid:
            share, token, following = prefix, -1 if p is None else draw(p, u), 0.0
        else:
            ids, q = rows.q(row)
            left = float(_left(p, ids, q, prefix).sum() + prefix * _others(p, ids).sum())
            below = left + 1 - prefix
            share = left / below if below > 0 else 0.0
            token = draw_residual(p, ids, q, prefix, u)
            draft = rows.drafts[row]
            following = min(prefix * float(p[draft] / q[ids == draft][0]), 1.0)
        if not row or rows.accepted[row] < share:
            found = {i: int(rows.drafts[i]) for i in range(row)} | {row: token}
        prefix = following
    return found


def draw_residual(p: Array, ids: Array, q: Array, prefix: float, u: float) -> int:
    """Draw from ``max(prefix * p - q, 0)``: first the tokens of ``q`` in their order, then by id.

    Nothing is left only where rounding rejected a draft that is as likely as its row says: then
    ``p`` is drawn from.

    Args:
        p: ``[vocab]``.
        ids: ``[kept]``, where ``q`` is not 0.
        q: ``[kept]``.
        prefix: Of the block.
        u: In ``[0, 1)``.
    """
    first = _left(p, ids, q, prefix)
    others = prefix * _others(p, ids)
    total = first.sum() + others.sum()
    if not total > 0:
        return draw(p, u)
    both = np.cumsum(np.concatenate([first, others]))
    place = int(np.searchsorted(both, u * both[-1], side="right"))
    return int(ids[place]) if place < ids.size else place - ids.size


def _left(p: Array, ids: Array, q: Array, prefix: float) -> Array:
    return np.maximum(prefix * p[ids] - q, 0)


def _others(p: Array, ids: Array) -> Array:
    others = p.copy()
    others[ids] = 0
    return others


def is_typical(logits: Array, options: Array, draft: int) -> bool:
    """Return whether typical acceptance takes a draft."""
    m = _before_filters(logits, options)
    entropy = -float(np.sum(m[m > 0] * np.log(m[m > 0])))
    threshold, scale = options[Option.THRESHOLD], options[Option.SCALE]
    return bool(m[draft] > min(threshold, scale * np.exp(-entropy)))


def is_relaxed(logits: Array, options: Array, draft: int) -> bool:
    """Return whether relaxed acceptance takes a draft; of equal tokens the lower id comes first."""
    m = _before_filters(logits, options)
    rank = int((m > m[draft]).sum() + (m[:draft] == m[draft]).sum())
    close = m[draft] >= m.max() - options[Option.THRESHOLD]
    return bool(m[draft] > 0 and rank < options[Option.RANKS] and close)


def _before_filters(logits: Array, options: Array) -> Array:
    temperature = options[Option.TEMPERATURE]
    weights = np.exp((logits - logits.max()) / (temperature if temperature > 0 else 1))
    return weights / weights.sum()
