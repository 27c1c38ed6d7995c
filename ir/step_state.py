"""Columns of the tensors by which a step prepares the next one: state, options, emitted tokens.

One row per place of the batch. Operations, kernels and the engine share these numbers; a package
that was written with others is refused by the plan format.
"""

import enum


class State(enum.IntEnum):
    """Columns of ``state`` i32 ``[requests, 16]``: what a request has done and may still do.

    A step reads a row when it verifies drafts and writes it when it advances the request.
    """

    LENGTH = 0
    """Position of the request's first row, which is the number of tokens that are cached."""
    GENERATED = 1
    """New tokens emitted so far."""
    LIMIT = 2
    """Most new tokens."""
    MINIMUM = 3
    """New tokens before which no stop token is taken."""
    FINISHED = 4
    """A `Finish`."""
    DRAFTED = 5
    """Valid drafts among the rows of this step; the rows behind them are placeholders."""
    DRAFTS = 6
    """Drafts that the next step shall have, at most the plan's; the step's own choice if
    ADAPTIVE."""
    SEED_LOW = 7
    SEED_HIGH = 8
    PROPOSED = 9
    """Drafts verified so far, without those of a step that ends the request."""
    ACCEPTED = 10
    """Those of them that were accepted."""
    RATE = 11
    """Probability that a draft is accepted if those before it were, in units of 1 / `RATE_ONE`:
    an average over the drafts that were tried, in which older ones fade."""
    STEPS = 12
    """Steps taken so far."""
    PLACE = 13
    """The request's place in the decode batch, which is its row of the tables that plans share."""
    ADAPTIVE = 14
    """0: the request named its DRAFTS; 1: the step chooses them by RATE, or, where element 1 of
    ``step`` is `HELD`, the host between groups."""


class Option(enum.IntEnum):
    """Columns of ``options`` f32 ``[requests, 16]``: how a request wants its tokens chosen."""

    TEMPERATURE = 0
    """0: the most likely token."""
    TOP_K = 1
    """0: no limit."""
    TOP_P = 2
    """1: no limit."""
    MIN_P = 3
    """0: no limit."""
    REPETITION = 4
    """Positive logits of tokens of the text are divided by it, others multiplied; 0, 1: nothing."""
    PRESENCE = 5
    """Taken off the logits of new tokens of the text; 0: nothing."""
    FREQUENCY = 6
    """As PRESENCE, times how often the token was emitted."""
    VERIFICATION = 7
    """A `Verification`."""
    THRESHOLD = 8
    """Of `Verification.TYPICAL` and `Verification.RELAXED`."""
    SCALE = 9
    """Of `Verification.TYPICAL`."""
    RANKS = 10
    """Of `Verification.RELAXED`."""


class Finish(enum.IntEnum):
    """Why a place emits nothing any more; ``RUNS``: it does."""

    RUNS = 0
    STOP = 1
    LIMIT = 2
    NOT_FINITE = 3
    EMPTY = 4


class Verification(enum.IntEnum):
    """Which drafts are taken; see `ascendfx.ir.draft_acceptance`. The first three are lossless."""

    EXACT = 0
    REJECTION = 1
    BLOCK = 2
    TYPICAL = 3
    RELAXED = 4


class Stream(enum.IntEnum):
    """Which decision a random number is for; see `ascendfx.ir.uniform`."""

    SAMPLE = 0
    ACCEPT = 1
    DRAFT = 2


class Size(enum.IntEnum):
    """Elements of ``sizes`` i32 ``[8]``: how much of each tensor a step uses.

    The host writes all but the last two, which `PackRows` writes in each step.
    """

    ROWS = 0
    """Token rows; of a decode step, those of all drafts that there could be."""
    REQUESTS = 1
    CONTEXT = 2
    """Tokens of the longest request, those of the step included."""
    PAIRS = 3
    """Pairs of rows and experts."""
    REQUEST_PAIRS = 4
    """Pairs of requests and experts, one row for each request."""
    PACKED_ROWS = 5
    """Rows of the main model in a decode step with drafts."""
    PACKED_PAIRS = 6
    """Pairs of these and experts."""


STATE_COLUMNS = 16
OPTION_COLUMNS = 16
STOP_COLUMNS = 8
"""Stop tokens of a request; -1 in columns that are not used."""
SIZE_COLUMNS = 8
"""Elements of ``sizes``: one granule of 32 bytes."""
STEP_COLUMNS = 16
"""Elements of ``step`` i32: the index of the step; element ``d`` is the least RATE at which ``d``
drafts in a row pay, or `HELD` in element 1."""
HELD = -1
"""DRAFTS are what the host wrote."""
RATE_ONE = 1 << 16
"""RATE of drafts that are always accepted."""
RATE_SHIFT = 4
"""Each draft that a step tries takes 2^-4 of the weight of all before that step."""
RETRY_STEPS = 16
"""Without drafts RATE does not move: every 16th step one is tried."""
NO_DRAFT = -2
"""In ``emitted``, behind the tokens of a step: there was no draft; -1: one was rejected."""
RECENT_COLUMNS = 8
"""Columns of ``recent`` i32 ``[requests, 8]``: column ``i`` is the token at position
``LENGTH - 1 - i``; what lies before the text is never read."""


DRAFT_CANDIDATES = 32
"""Columns of ``draft_ids`` and ``draft_probs`` ``[requests, drafts, 32]``: a draft is drawn from so
many tokens, whose probabilities are kept until it is verified."""


def hidden_window(drafts: int) -> int:
    """Return how many hidden states a place keeps: those that draft rows of one step can reach."""
    return 2 * drafts + 1
