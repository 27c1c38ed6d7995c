"""Names of plans and caches, and of inputs that only some steps have.

Passes, plans and the engine share them; they stand in packages and in records of requests, too.
"""

PLANS = ("decode", "prefill")
"""Kinds of step: one for all requests that run, one for a part of a prompt."""

TOKEN_IDS = "token_ids"  # noqa: S105
LOGIT_ROWS = "logit_rows"
LOGIT_POSITIONS, LOGIT_REQUESTS = "logit_positions", "logit_requests"
EMITTED = "emitted"
KNOWN_TOKENS = "known_tokens"
RECENT, HIDDEN_SLOTS = "recent", "hidden_slots"
DRAFT_IDS, DRAFT_PROBS = "draft_ids", "draft_probs"
ANCESTORS = "ancestors"
SIZES = "sizes"
"""How much of each tensor a step uses; an input of a program only where a step writes it."""

CACHE_PREFIX = "cache."
"""With what the names begin of everything that keeps its contents between steps."""
DRAFT_CACHE_PREFIX = f"{CACHE_PREFIX}draft."
HIDDEN_CACHE = f"{CACHE_PREFIX}hidden"
COUNTS = f"{CACHE_PREFIX}counts"
