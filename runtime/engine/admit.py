"""From what a caller asks to what a device is told; everything wrong is found here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STOP_COLUMNS, Option, State, Verification
from ascendfx.ir.token_choice import wants_penalties
from ascendfx.runtime.engine.check_record import check_record
from ascendfx.runtime.engine.device import Device
from ascendfx.runtime.engine.fresh_state import fresh_state
from ascendfx.runtime.engine.places import Entry
from ascendfx.runtime.engine.request import Request, prompt_ids
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.engine.transfer_record import TransferRecord


class RequestChecks:
    """What a request must fit: vocabulary, context, drafts."""

    def __init__(self, config: ServingConfig, device: Device, codec: TextCodec | None) -> None:
        self._config = config
        self._codec = codec
        self._tree, self._is_tree = device.tree, bool(device.decode.branches)
        self._plans = device.plans
        self._context = device.decode.context - device.drafts

    def prepare(
        self,
        requests: Sequence[Request],
        first_id: int = 0,
        *,
        polled: bool = True,
        plans: Sequence[str] = ("prefill", "decode"),
    ) -> list[Entry]:
        """Return an entry for each request.

        Args:
            requests: What callers ask for.
            first_id: Id of the first.
            polled: Whether `Engine.poll` delivers their tokens.
            plans: Those that are needed.

        Raises:
            GraphError: One of them cannot be served.
        """
        self._needs(plans)
        return [
            self._entry(number, request, first_id + number, polled=polled)
            for number, request in enumerate(requests)
        ]

    def handed_over(
        self,
        record: TransferRecord,
        name: int,
        model: str,
        caches: Mapping[str, NDArray[Any]],
    ) -> Entry:
        """Return an entry for a request whose prompt was read elsewhere.

        Raises:
            GraphError: It cannot go on here.
        """
        check_record(record, self._tree, self._config.vocabulary)
        record.check(model, self._tree.depth, caches)
        self._check_choice(f"request {name}", record.options)
        self._check_ids(f"request {name}", record.tokens.tolist(), int(record.state[State.LIMIT]))
        record = replace(record, state=record.state.copy())  # the caller may use it again
        return Entry(
            id=name,
            name=f"request {name}",
            prompt=record.tokens,
            limit=int(record.state[State.LIMIT]),
            options=record.options,
            state=record.state,
            stop_ids=record.stop_ids,
            polled=True,
            record=record,
        )

    def check_decode(self) -> None:
        """Check that there is a plan to go on with.

        Raises:
            GraphError: The package is for prefill only.
        """
        self._needs(("decode",))

    def _needs(self, plans: Sequence[str]) -> None:
        for each in plans:
            if each not in self._plans:
                (other,) = self._plans
                raise GraphError(
                    "other-half",
                    f"the engine has no plan `{each}`: its package is for {other} only",
                    hint="`engine.prefill` in a prefill engine gives a record, "
                    "`engine.start_from` in a decode engine takes it; a package with both "
                    "plans does everything",
                )

    def _entry(self, number: int, request: Request, name: int, *, polled: bool) -> Entry:
        ids = self._ids(number, request)
        options = request.sampling.options()
        self._check_choice(f"prompt {number}", options)
        most = self._tree.depth
        drafts = most if request.draft_tokens is None else request.draft_tokens
        if drafts > most:
            raise GraphError(
                "bad-limit",
                f"draft_tokens must be at most {most}, got {drafts}",
                hint="compile with a larger `draft_tokens`",
            )
        state = fresh_state(
            request.sampling,
            limit=request.max_new_tokens,
            minimum=request.min_new_tokens,
            drafts=self._tree.ends[drafts],
            adaptive=request.draft_tokens is None,
        )
        return Entry(
            id=name,
            name=f"prompt {number}" if not polled else f"request {name}",
            prompt=np.array(ids, np.int32),
            limit=request.max_new_tokens,
            options=options,
            state=state,
            stop_ids=self._stops(number, request),
            polled=polled,
        )

    def _check_choice(self, name: str, options: NDArray[np.float32]) -> None:
        """Check how tokens are chosen against the form of a step.

        Raises:
            GraphError: The rows of a step are a tree, which this does not work with.
        """
        kind = Verification(int(options[Option.VERIFICATION]))
        penalties = bool(wants_penalties(options))
        if self._is_tree and (penalties or kind is not Verification.EXACT):
            wants = "penalties" if penalties else f"verification `{kind.name.lower()}`"
            raise GraphError(
                "draft-tree-request",
                f"{name} wants {wants}; the steps of this engine verify a draft tree",
                hint='ask for verification="exact" without penalties, or compile with '
                "`draft_tokens` instead of `draft_tree`: choices on a tree look at no drafts",
            )

    def _ids(self, number: int, request: Request) -> tuple[int, ...]:
        prompt = request.prompt
        if isinstance(prompt, str):
            if self._codec is None:
                raise GraphError(
                    "no-tokenizer", "the model came without a tokenizer", hint="pass token ids"
                )
            ids = tuple(self._codec.encode(prompt))
        else:
            ids = prompt_ids(number, prompt)
        if not ids:
            raise GraphError(
                "empty-prompt",
                f"prompt {number} has no tokens",
                hint="start with the model's begin token, or leave the prompt out",
            )
        self._check_ids(f"prompt {number}", ids, request.max_new_tokens)
        return ids

    def _check_ids(self, name: str, ids: Sequence[int], limit: int) -> None:
        self._check_range(f"{name} holds token id", ids)
        total = len(ids) + limit
        if total > self._context:
            raise GraphError(
                code="context-limit",
                reason=f"{name} has {len(ids)} tokens, with {limit} new "
                f"ones {total}; the plan serves {self._context}",
                hint="compile with a larger `max_context`, or ask for fewer tokens",
            )

    def _check_range(self, what: str, ids: Sequence[int]) -> None:
        vocabulary = self._config.vocabulary
        wrong = next((each for each in ids if not 0 <= each < vocabulary), None)
        if wrong is not None:
            raise GraphError(
                code="token-range",
                reason=f"{what} {wrong}, the vocabulary has ids 0..{vocabulary - 1}",
                hint="the ids come from the tokenizer of another model",
            )

    def _stops(self, number: int, request: Request) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        self._check_range(f"prompt {number} names stop id", request.stop_ids)
        ends = sorted(self._config.end_tokens) if request.stop_at_eos else []
        known = [each for each in ends if 0 <= each < self._config.vocabulary]
        stops = list(dict.fromkeys([*known, *request.stop_ids]))
        if len(stops) > STOP_COLUMNS:
            raise GraphError(
                "bad-stop-ids",
                f"prompt {number} has {len(stops)} stop ids, end tokens of the model included; "
                f"at most {STOP_COLUMNS}",
                hint="a step on the device compares with so many; leave some out",
            )
        row = np.full(STOP_COLUMNS, -1, np.int32)
        row[: len(stops)] = stops
        return row
