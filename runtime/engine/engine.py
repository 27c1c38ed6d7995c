"""The engine: requests in, tokens out, over any executor."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_names import PLANS
from ascendfx.runtime.arguments import (
    check_all,
    check_flag,
    check_function,
    checked_path,
    wrong_type,
)
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.engine.admit import RequestChecks
from ascendfx.runtime.engine.device import Device
from ascendfx.runtime.engine.draft_policy import DraftPolicy, ExpectedGain
from ascendfx.runtime.engine.metrics import Acceptance, Metrics, warn
from ascendfx.runtime.engine.metrics_file import write_metrics
from ascendfx.runtime.engine.places import Entry, raise_first
from ascendfx.runtime.engine.request import (
    Generation,
    Piece,
    Prompt,
    Request,
    TokenProgress,
    Update,
    requests_for,
)
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.scheduler import Scheduler
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.engine.text_pieces import TextPieces
from ascendfx.runtime.engine.transfer_record import TransferRecord
from ascendfx.runtime.engine.updates import Updates
from ascendfx.runtime.executor.step import StepExecutor
from ascendfx.runtime.model_hash import model_hash

if TYPE_CHECKING:
    from ascendfx.runtime.compiled_model import CompiledModel


class Engine:
    """Serves requests with one compiled model.

    `generate` and `stream` take prompts and do the rest. A server calls `start`, `step`, `poll` and
    `cancel` from one thread, and schedules nothing; `text_pieces` makes text of what it polls.

    Attributes:
        config: Limits and token ids of the model.
        compiled: What the engine runs, if it was made from a model or a package.
    """

    def __init__(
        self,
        config: ServingConfig,
        executor: StepExecutor,
        codec: TextCodec | None = None,
        *,
        compiled: "CompiledModel | None" = None,
    ) -> None:
        self.config = config
        self.compiled = compiled
        self._codec = codec
        self._entries: dict[int, Entry] = {}
        self._next_id = 0
        self.executor = executor

    @property
    def executor(self) -> StepExecutor:
        """What runs the steps; another one begins with an empty cache and without requests."""
        return self._executor

    @executor.setter
    def executor(self, executor: StepExecutor) -> None:
        if not hasattr(executor, "run_steps"):
            raise wrong_type("executor", executor, "an executor of a compiled model or a package")
        before: Scheduler | None = getattr(self, "_scheduler", None)
        if before is not None:  # what still runs writes the control tensors
            before.give_up(self._entries.values())
        self._executor = executor
        self._device = Device(executor, self.config.block_tokens)
        self._scheduler = Scheduler(self._device)
        self._scheduler.policy = before.policy if before is not None else None
        self._checks = RequestChecks(self.config, self._device, self._codec)
        self._entries.clear()

    @property
    def draft_policy(self) -> DraftPolicy | ExpectedGain | None:
        """Chooses the drafts of requests that name no number; None: all that the plan has."""
        return self._scheduler.policy

    @draft_policy.setter
    def draft_policy(self, policy: DraftPolicy | ExpectedGain | None) -> None:
        if policy is not None and not isinstance(policy, ExpectedGain):
            check_function("draft_policy", policy)
        self._scheduler.policy = policy

    @property
    def busy(self) -> bool:
        """Whether a step has anything to do."""
        return self._scheduler.busy

    @property
    def metrics(self) -> Metrics:
        """What the engine has done so far."""
        return self._scheduler.metrics

    def save_metrics(self, path: "str | PathLike[str]") -> None:
        """Write `metrics` to a JSON file, for `ascendfx report --metrics FILE`.

        It has the attributes of `Metrics` by name.

        Raises:
            GraphError: The place cannot be written.
        """
        write_metrics(self.metrics, checked_path("path", path), model=self._model)

    def start(self, requests: Sequence[Request]) -> list[int]:
        """Let requests wait for the next `step`; returns an id for each.

        Raises:
            GraphError: A request cannot be served; then none of them is started.
        """
        check_all("requests", requests, Request)
        return [entry.id for entry in self._start(requests, polled=True)]

    def prefill(self, request: Request) -> TransferRecord:
        """Read a prompt for an engine that goes on from it; nothing of it stays here.

        Requests of this engine wait meanwhile.

        Raises:
            GraphError: The request cannot be served, there is no place or are not enough blocks
                now, or the logits are no numbers.
        """
        if not isinstance(request, Request):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("request", request, "a `Request`")
        (entry,) = self._checks.prepare([request], plans=("prefill",), polled=False)
        return self._scheduler.hand_over(entry, self._model)

    def start_from(self, record: TransferRecord) -> int:
        """As `start`, for a request whose prompt another engine has read; returns its id.

        Raises:
            GraphError: The record is of another model or form, or the request does not fit.
        """
        if not isinstance(record, TransferRecord):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("record", record, "a `TransferRecord`")
        self._checks.check_decode()
        caches = self._device.entries()
        self._add([self._checks.handed_over(record, self._next_id, self._model, caches)])
        return self._next_id - 1

    def step(self, n: int = 1, *, wait: bool = True) -> int:
        """Let waiting requests join, then run up to ``n`` decode steps; returns how many.

        Fewer run when no request can take more. More than the device keeps tokens of are handed
        over in groups, and requests join and leave between groups.

        Args:
            n: At least 1.
            wait: Read what the steps gave. Without, the last group still runs when this returns and
                the group before it has been read: device and host work at the same time, and
                `poll` is a group behind. Tokens are the same. What runs when there is nothing more
                to hand over is read.

        Raises:
            GraphError: The executor failed. All requests go on with the next step.
        """
        n = checked_limit("n", n, least=1)
        check_flag("wait", wait)
        done = 0
        while done < n:
            ran = self._scheduler.run(min(n - done, self._device.group_steps), ahead=not wait)
            done += ran
            if not ran:
                break
        for message in self._scheduler.take_warnings():
            warn(message)
        return done

    def poll(self) -> Updates:
        """Return what is new of each request since the last call, each token once and in order.

        It reads like a list of `Update`, whose last one of a request has its ``finish_reason``; the
        id is then forgotten. `Updates` also tells the same in columns, for large batches.
        """
        taken = self._scheduler.places.turn.take()
        changed = self._scheduler.changed
        if not changed:
            return Updates(taken)
        rest = [self._take(each) for each in list(changed.values()) if each.polled]
        return Updates(taken, [each for each in rest if each.token_ids or each.finish_reason])

    def text_pieces(self) -> TextPieces:
        """Return what makes text of a request's tokens as they come; empty without tokenizer."""
        return TextPieces(self._codec)

    def cancel(self, request: int) -> None:
        """End a request; its last update says ``"cancelled"``. One that has ended stays as it is.

        Raises:
            GraphError: There never was such a request.
        """
        number = checked_limit("request", request, least=0)
        if number >= self._next_id:
            raise GraphError(
                "unknown-request",
                f"no request has the id {request}",
                hint="ids come from `start` and `start_from`",
            )
        if number in self._entries:  # others have ended, and their ends were polled
            self._scheduler.cancel(self._entries[number])

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int = 64,
        min_new_tokens: int = 0,
        stop_at_eos: bool = True,
        stop_ids: Sequence[int] = (),
        sampling: Sampling | Sequence[Sampling] | None = None,
        draft_tokens: int | None = None,
        progress: TokenProgress | None = None,
    ) -> list[Generation]:
        """Return one continuation per prompt, in order.

        More prompts than the plan's batch wait until a place is free. What a request's tokens
        depend on is told in `Sampling`.

        Args:
            prompts: Texts or token ids, none of them empty.
            max_new_tokens: Limit per request, at least 1.
            min_new_tokens: Until a request has so many, the best token that does not end it is
                taken, as ``min_new_tokens`` of transformers does.
            stop_at_eos: End a request at an end token of the model.
            stop_ids: Further token ids that end a request.
            sampling: How tokens are chosen, for all or one for each prompt; None: greedy.
            draft_tokens: Draft tokens per step; None: what the engine chooses.
            progress: Called after each group of steps.

        Raises:
            GraphError: A prompt is empty, has ids outside the vocabulary, or does not fit into the
                plan's context together with ``max_new_tokens``; text was given and the package has
                no tokenizer; or the model's numbers overflow.
        """
        if progress is not None:
            check_function("progress", progress)
        requests = requests_for(
            prompts,
            sampling,
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop_at_eos=stop_at_eos,
            stop_ids=stop_ids,
            draft_tokens=draft_tokens,
        )
        entries = self._start(requests, polled=False)
        total = sum(entry.limit for entry in entries)
        try:
            while not all(entry.finish_reason for entry in entries):
                self.step(self._device.group_steps)
                raise_first(entries)
                if progress:
                    progress(sum(map(self._progress_of, entries)), total)
        finally:
            self._forget(entries)
        return [self._generation(entry) for entry in entries]

    def stream(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int = 64,
        min_new_tokens: int = 0,
        stop_at_eos: bool = True,
        stop_ids: Sequence[int] = (),
        sampling: Sampling | Sequence[Sampling] | None = None,
        draft_tokens: int | None = None,
        group_steps: int = 1,
    ) -> Iterator[Piece]:
        """Yield the continuations as they grow.

        Arguments and errors are those of `generate`; an iterator that is closed or dropped cancels
        its requests. ``group_steps`` decode steps lie between two looks at the tokens: more of
        them cost less time.
        """
        group_steps = checked_limit("group_steps", group_steps, least=1)
        requests = requests_for(
            prompts,
            sampling,
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop_at_eos=stop_at_eos,
            stop_ids=stop_ids,
            draft_tokens=draft_tokens,
        )
        self._checks.prepare(requests)
        return self._pieces(requests, group_steps)

    def save(self, directory: "str | PathLike[str]", *, plans: Sequence[str] = PLANS) -> None:
        """Write kernels, plans, weights and tokenizer to a folder for `ascendfx.load`.

        Args:
            directory: The folder.
            plans: ``("prefill",)`` or ``("decode",)`` for a package of one half, whose engine has
                `prefill` or `start_from`.

        Raises:
            GraphError: There is no such plan, the place is taken by something else, the disk is
                full or not writable, or the model's files, or the module's weights, were changed
                since it was compiled: they are read again.
        """
        from ascendfx.runtime.package.one_part import one_part  # noqa: PLC0415
        from ascendfx.runtime.package.save_package import save_package  # noqa: PLC0415

        if self.compiled is None:
            raise GraphError(
                code="nothing-to-save",
                reason="this engine was not made from a compiled model",
                hint="copy the package that it was loaded from",
            )
        save_package(one_part(self.compiled, plans), checked_path("directory", directory))

    @property
    def _model(self) -> str:
        if not self.config.model and self.compiled is not None:
            self.config = replace(self.config, model=model_hash(self.compiled))
        return self.config.model

    def _start(self, requests: Sequence[Request], *, polled: bool) -> list[Entry]:
        entries = self._checks.prepare(requests, self._next_id, polled=polled)
        self._add(entries)
        return entries

    def _add(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._scheduler.check(entry)
        for entry in entries:
            self._scheduler.add(entry)
            self._entries[entry.id] = entry
        self._next_id += len(entries)

    def _pieces(self, requests: Sequence[Request], group_steps: int) -> Iterator[Piece]:
        entries = self._start(requests, polled=False)  # not before the first piece is asked for
        texts = [self.text_pieces() for _ in entries]
        open_ones = list(range(len(entries)))
        try:
            while open_ones:
                self.step(group_steps)
                raise_first(entries)
                for prompt in list(open_ones):
                    update = self._take(entries[prompt])
                    reason = update.finish_reason
                    text = texts[prompt].add(update.token_ids, last=bool(reason))
                    if reason:
                        open_ones.remove(prompt)
                    if update.token_ids or reason:
                        yield Piece(prompt, text, update.token_ids, reason)
        finally:
            self._forget(entries)

    def _take(self, entry: Entry) -> Update:
        """Return what the caller does not know of a request; forgets one that has ended."""
        if entry.place >= 0 and not entry.finish_reason:
            return Update(entry.id, self._scheduler.places.tokens_for(entry))
        new = tuple(entry.tokens[entry.delivered :].tolist())
        entry.delivered += len(new)
        self._scheduler.changed.pop(entry.id, None)
        if not entry.finish_reason:
            return Update(entry.id, new)
        self._entries.pop(entry.id, None)
        acceptance = Acceptance.of_state(entry.state, self._device.tree)
        return Update(entry.id, new, entry.finish_reason, entry.error, acceptance)

    def _forget(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._scheduler.cancel(entry)
            self._scheduler.changed.pop(entry.id, None)
            self._entries.pop(entry.id, None)

    def _progress_of(self, entry: Entry) -> int:
        if entry.finish_reason:
            return entry.limit
        if entry.place < 0:
            return entry.tokens.size
        return self._scheduler.places.generated(entry)

    def _generation(self, entry: Entry) -> Generation:
        ids = tuple(entry.tokens.tolist())
        text = self._codec.decode(ids) if self._codec else ""
        return Generation(tuple(entry.prompt.tolist()), ids, text, entry.finish_reason)
