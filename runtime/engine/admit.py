"""From what a caller asks to what a device is told; everything wrong is found here."""

from collections.abc import Sequence

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, State
from ascendfx.runtime.engine.device import Device
from ascendfx.runtime.engine.places import Entry
from ascendfx.runtime.engine.request import Request, prompt_ids
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec


class RequestChecks:
    """What a request must fit: vocabulary, context, drafts."""

    def __init__(self, config: ServingConfig, device: Device, codec: TextCodec | None) -> None:
        self._config = config
        self._codec = codec
        self._drafts = device.drafts
        self._context = device.decode.context - device.drafts

    def prepare(
        self, requests: Sequence[Request], first_id: int = 0, *, polled: bool = True
    ) -> list[Entry]:
        """Return an entry for each request.

        Raises:
            GraphError: One of them cannot be served.
        """
        return [
            self._entry(number, request, first_id + number, polled=polled)
            for number, request in enumerate(requests)
        ]

    def _entry(self, number: int, request: Request, name: int, *, polled: bool) -> Entry:
        ids = self._ids(number, request)
        drafts = self._drafts if request.draft_tokens is None else request.draft_tokens
        if drafts > self._drafts:
            raise GraphError(
                "bad-limit",
                f"draft_tokens must be at most {self._drafts}, got {drafts}",
                hint="compile with a larger `draft_tokens`",
            )
        state = np.zeros(STATE_COLUMNS, np.int32)
        state[State.LIMIT] = request.max_new_tokens
        # A minimum beyond the limit is as good as the limit, and fits 32 bits.
        state[State.MINIMUM] = min(request.min_new_tokens, request.max_new_tokens)
        state[State.DRAFTS] = drafts
        request.sampling.write_seed(state)
        return Entry(
            id=name,
            name=f"prompt {number}" if not polled else f"request {name}",
            prompt=np.array(ids, np.int32),
            limit=request.max_new_tokens,
            options=request.sampling.options(),
            state=state,
            stop_ids=self._stops(number, request),
            adaptive=request.draft_tokens is None,
            polled=polled,
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
        vocabulary = self._config.vocabulary
        wrong = next((each for each in ids if not 0 <= each < vocabulary), None)
        if wrong is not None:
            raise GraphError(
                code="token-range",
                reason=f"prompt {number} holds token id {wrong}, "
                f"the vocabulary has ids 0..{vocabulary - 1}",
                hint="the ids come from the tokenizer of another model",
            )
        total = len(ids) + request.max_new_tokens
        if total > self._context:
            raise GraphError(
                code="context-limit",
                reason=f"prompt {number} has {len(ids)} tokens, with {request.max_new_tokens} new "
                f"ones {total}; the plan serves {self._context}",
                hint="compile with a larger `max_context`, or ask for fewer tokens",
            )
        return ids

    def _stops(self, number: int, request: Request) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
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
