"""The other way to serve drafts, for comparison: the host prepares every step, twice.

What serving engines do around the kernels of a step where verification and preparation belong to
the host, in our own words. A scheduler walks over request objects, gives them blocks and says how
many tokens each computes. A runner takes that over into tables, builds ids, positions, slots and
lengths with NumPy, copies them to the device, and makes the parameters of attention. When the main
model's tokens have come back, the host compares them with the drafts; the same tensors are built
again for the draft model, one operation of the tensor library after the other, and once more for
each further draft. At last drafts come back and requests are brought up to date.

Source of the scheme: vllm-project/vllm-ascend, ``worker/model_runner_v1.py`` (000f832c) and
``worker/mtp_proposer_v1.py`` (005c2b17). What is vectorised there is vectorised here. Left out:
sampling options, several processes and what they send each other, replicas that wait for each
other, tracing, text.

Host and device are one memory here: a copy is that of a few kilobytes, a wait is nothing, and the
host is not charged for launching the model. All that costs more on a card.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int32]
LAYERS = 61


@dataclass(slots=True)
class HostRequest:
    """A request as the scheduler of such an engine keeps it."""

    id: str
    place: int
    tokens: list[int]
    limit: int
    stop_ids: frozenset[int]
    computed: int
    blocks: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    finish_reason: str | None = None


@dataclass(slots=True)
class Schedule:
    """What the scheduler asks of the runner, by request."""

    requests: list[HostRequest] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    new_blocks: dict[str, list[int]] = field(default_factory=dict)
    drafts: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """Parameters of attention; operators want lengths as lists of the host."""

    starts: torch.Tensor
    lengths: torch.Tensor
    slots: torch.Tensor
    block_table: torch.Tensor
    query_lengths: list[int]
    length_list: list[int]
    longest_query: int
    longest: int


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """What the engine tells of a request after a step."""

    id: str
    new_tokens: list[int]
    finish_reason: str | None


class Mirror:
    """A tensor on the host and its copy on the device."""

    def __init__(self, *shape: int) -> None:
        self.device = torch.zeros(shape, dtype=torch.int32)
        self._host = torch.zeros(shape, dtype=torch.int32)
        self.array = self._host.numpy()

    def send(self, count: int) -> torch.Tensor:
        """Copy the first rows and return them."""
        target = self.device[:count]
        target.copy_(self._host[:count], non_blocking=True)
        return target


_OF_ROWS = ("token_ids", "positions", "slots", "logit_rows", "target_rows", "draft_ids")
_OF_REQUESTS = ("starts", "lengths", "bonus_rows")


class TwoPreparations:
    """Steps of a batch; kernels are left out, and their results are given.

    Attributes:
        requests: The batch.
        copies: Between host and device, either way, so far.
        syncs: Waits of the host for the device, so far.
    """

    def __init__(self, batch: int, drafts: int, context: int, block: int, prompt: int) -> None:
        self._drafts, self._block, self._rows = drafts, block, batch * (drafts + 1)
        columns = context // block + 1
        self._free = list(range(batch * columns))
        self._token_table = np.zeros((batch, context + drafts + 1), np.int32)
        self._computed = np.zeros(batch, np.int32)
        self._block_table = Mirror(batch, columns)
        self._blocks_used = [0] * batch
        self._arrays = {name: Mirror(self._rows) for name in _OF_ROWS}
        self._arrays |= {name: Mirror(batch + 1) for name in _OF_REQUESTS}
        self._arange = np.arange(self._rows + 1, dtype=np.int32)
        self._device_arange = torch.arange(self._rows + 1, dtype=torch.int32)
        self._draft_ids = torch.zeros(self._rows, dtype=torch.int32)
        self._draft_positions = torch.zeros(self._rows, dtype=torch.int32)
        self._layers = [f"model.layers.{i}.self_attn.attn" for i in range(LAYERS + 1)]
        self.requests = [self._request(i, prompt, context) for i in range(batch)]
        self.copies = self.syncs = self._steps = 0

    @property
    def per_step(self) -> tuple[float, float]:
        """Copies and waits of a step, on average."""
        return self.copies / self._steps, self.syncs / self._steps

    def step(self, sampled: torch.Tensor, drafted: torch.Tensor) -> list[RequestOutput]:
        """Run one step.

        Args:
            sampled: ``[batch, drafts + 1]``: the main model's token behind each row.
            drafted: ``[batch, drafts]``: what the draft model gives.
        """
        self._steps += 1
        schedule = self._schedule()
        self._update_tables(schedule)
        counts = self._prepare_main(schedule)
        chosen = self._read(sampled)
        new = self._verify(schedule, chosen)
        if self._drafts:
            self._prepare_drafts(schedule, counts, new)
            for request, tokens in zip(schedule.requests, self._read(drafted), strict=True):
                request.drafts = tokens
        return self._finish(schedule, new)

    def _request(self, place: int, prompt: int, context: int) -> HostRequest:
        blocks = [self._free.pop() for _ in range(-(-prompt // self._block))]
        self._block_table.array[place, : len(blocks)] = blocks
        self._blocks_used[place] = len(blocks)
        self._token_table[place, :prompt] = 5
        stops, drafts = frozenset((0, 1)), [3] * self._drafts
        tokens = [5] * prompt
        return HostRequest(
            f"request-{place}", place, tokens, context, stops, prompt - 1, blocks, drafts
        )

    def _schedule(self) -> Schedule:
        """Give every request its tokens and the blocks for them, look-ahead included."""
        schedule, budget = Schedule(), self._rows
        for request in self.requests:
            if request.finish_reason is not None:
                continue
            tokens = len(request.tokens) + len(request.drafts) - request.computed
            tokens = min(tokens, budget, request.limit - request.computed)
            if tokens <= 0:
                break
            needed = -(-(request.computed + tokens + self._drafts) // self._block)
            if needed > len(request.blocks):
                new = [self._free.pop() for _ in range(needed - len(request.blocks))]
                request.blocks += new
                schedule.new_blocks[request.id] = new
            budget -= tokens
            schedule.requests.append(request)
            schedule.tokens[request.id] = tokens
            if request.drafts:
                schedule.drafts[request.id] = request.drafts[: tokens - 1]
        return schedule

    def _update_tables(self, schedule: Schedule) -> None:
        """Take the scheduler's word over into the tables of the batch."""
        for request in schedule.requests:
            place = request.place
            self._computed[place] = request.computed
            if blocks := schedule.new_blocks.get(request.id):
                used = self._blocks_used[place]
                self._block_table.array[place, used : used + len(blocks)] = blocks
                self._blocks_used[place] += len(blocks)
            if drafts := schedule.drafts.get(request.id):
                start = request.computed + 1
                self._token_table[place, start : start + len(drafts)] = drafts

    def _prepare_main(self, schedule: Schedule) -> Ints:
        batch = len(schedule.requests)
        self._send_array(self._block_table, batch)
        counts = np.array([schedule.tokens[each.id] for each in schedule.requests], np.int32)
        rows = int(counts.sum())
        request_of_row = np.repeat(self._arange[:batch], counts)
        ends = np.cumsum(counts, dtype=np.int32)
        offset = self._arange[:rows] - np.repeat(ends - counts, counts)
        positions = self._arrays["positions"].array[:rows]
        np.add(self._computed[request_of_row], offset, out=positions)
        flat = positions + request_of_row * self._token_table.shape[1]
        np.take(self._token_table.reshape(-1), flat, out=self._arrays["token_ids"].array[:rows])
        table = self._block_table.array
        column = request_of_row * table.shape[1] + positions // self._block
        first = table.reshape(-1)[column] * self._block
        np.add(first, positions % self._block, out=self._arrays["slots"].array[:rows])
        starts = self._arrays["starts"].array
        starts[0], starts[1 : batch + 1] = 0, ends
        np.add(self._computed[:batch], counts, out=self._arrays["lengths"].array[:batch])
        self._send("token_ids", rows)
        self._send("positions", rows)
        slots = self._send("slots", rows)
        lengths = self._send("lengths", batch)
        if self._drafts:
            self._prepare_verification(schedule, ends, rows)
        length_list = self._arrays["lengths"].array[:batch].tolist()
        common = (self._send("starts", batch + 1), lengths, slots, self._block_table.device[:batch])
        layers = self._layers[:LAYERS]
        self._attention(common, counts.tolist(), length_list, layers, int(counts.max()))
        return counts

    def _prepare_verification(self, schedule: Schedule, ends: Ints, rows: int) -> None:
        """Say which logits belong to drafts, and which to the token behind them."""
        batch = len(schedule.requests)
        found = [len(schedule.drafts.get(each.id, ())) for each in schedule.requests]
        drafts = np.array(found, np.int32)
        total = int(drafts.sum())
        draft_ends = np.cumsum(drafts, dtype=np.int32)
        self._arrays["logit_rows"].array[:rows] = self._arange[:rows]
        self._arrays["bonus_rows"].array[:batch] = ends - 1
        within = self._arange[:total] - np.repeat(draft_ends - drafts, drafts)
        target = self._arrays["target_rows"].array[:total]
        np.add(np.repeat(ends - 1 - drafts, drafts), within, out=target)
        ids = self._arrays["token_ids"].array
        np.take(ids, target + 1, out=self._arrays["draft_ids"].array[:total])
        self._send("logit_rows", rows)
        self._send("target_rows", total)
        self._send("draft_ids", total)
        self._send("bonus_rows", batch)

    def _verify(self, schedule: Schedule, chosen: list[list[int]]) -> list[list[int]]:
        """Take the drafts that the main model chose itself, and the token behind them."""
        new: list[list[int]] = []
        for request, row in zip(schedule.requests, chosen, strict=True):
            accepted = 0
            for draft, token in zip(schedule.drafts.get(request.id, ()), row, strict=False):
                if draft != token:
                    break
                accepted += 1
            tokens = row[: accepted + 1]
            start = request.computed + 1
            self._token_table[request.place, start : start + len(tokens)] = tokens
            new.append(tokens)
        return new

    def _prepare_drafts(self, schedule: Schedule, counts: Ints, new: list[list[int]]) -> None:
        """Build the step again: rejected rows left out, ids one place further."""
        batch = len(schedule.requests)
        rejected = [
            schedule.tokens[request.id] - len(tokens)
            for request, tokens in zip(schedule.requests, new, strict=True)
        ]
        rejected_rows = self._upload(rejected)
        next_ids = self._upload([tokens[-1] for tokens in new])
        main_starts = self._arrays["starts"].device[: batch + 1]
        kept = main_starts[1:] - main_starts[:-1] - rejected_rows
        starts = torch.zeros(batch + 1, dtype=torch.int32)
        torch.cumsum(kept, dim=0, out=starts[1:])
        rows = self._item(starts[-1])
        request_of_row = torch.repeat_interleave(self._device_arange[:batch], kept)
        source = self._device_arange[:rows] + (main_starts[:-1] - starts[:-1])[request_of_row]
        ids, last = self._draft_ids, starts[1:] - 1
        token_ids = self._arrays["token_ids"].device[source]
        positions = self._arrays["positions"].device[source]
        slots = self._arrays["slots"].device[source]
        ids[: rows - 1] = token_ids[1:]
        ids[last] = next_ids
        lengths = positions[last] + 1
        longest = self._item(kept.max())
        self._draft_positions[:rows] = positions
        table = self._block_table.device[:batch]
        layers = self._layers[LAYERS:]
        query = [counts[i] - each for i, each in enumerate(rejected)]
        common = (starts, lengths, slots, table)
        self._attention(common, query, self._list(lengths), layers, longest)
        positions, slots = positions[last], slots[last]
        for _ in range(1, self._drafts):
            positions = positions + 1
            beyond = positions >= self._token_table.shape[1]
            self._draft_positions[:batch] = torch.where(beyond, 0, positions)
            lengths = lengths + 1
            block = torch.gather(table, 1, (positions // self._block).long()[:, None])[:, 0]
            slots = block * self._block + positions % self._block
            slots.masked_fill_(beyond, -1)
            common = (self._device_arange[: batch + 1], lengths, slots, table)
            self._attention(common, [1] * batch, self._list(lengths), layers, 1)

    def _attention(
        self,
        common: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
        query: list[int],
        lengths: list[int],
        layers: list[str],
        longest_query: int,
    ) -> dict[str, AttentionMetadata]:
        """Return the parameters of attention by layer."""
        built = AttentionMetadata(*common, query, lengths, longest_query, max(lengths))
        return dict.fromkeys(layers, built)

    def _finish(self, schedule: Schedule, new: list[list[int]]) -> list[RequestOutput]:
        """Bring the requests up to date and find those that have ended."""
        outputs: list[RequestOutput] = []
        for request, tokens in zip(schedule.requests, new, strict=True):
            request.computed += len(tokens)
            for kept, token in enumerate(tokens, start=1):
                request.tokens.append(token)
                if token in request.stop_ids:
                    request.finish_reason = "stop"
                elif len(request.tokens) >= request.limit:
                    request.finish_reason = "length"
                else:
                    continue
                del tokens[kept:]
                break
            outputs.append(RequestOutput(request.id, tokens, request.finish_reason))
        return outputs

    def _send(self, name: str, count: int) -> torch.Tensor:
        return self._send_array(self._arrays[name], count)

    def _send_array(self, mirror: Mirror, count: int) -> torch.Tensor:
        self.copies += 1
        return mirror.send(count)

    def _upload(self, values: list[int]) -> torch.Tensor:
        self.copies += 1
        return torch.tensor(values, dtype=torch.int32)

    def _item(self, tensor: torch.Tensor) -> int:
        """Copy one number to the host and wait for it."""
        self.copies += 1
        self.syncs += 1
        return int(tensor.item())

    def _list(self, tensor: torch.Tensor) -> list[int]:
        self.copies += 1
        self.syncs += 1
        return tensor.tolist()

    def _read(self, tensor: torch.Tensor) -> list[list[int]]:
        """Copy to the host, wait, and make lists of it."""
        self.copies += 1
        self.syncs += 1
        return tensor.cpu().tolist()
