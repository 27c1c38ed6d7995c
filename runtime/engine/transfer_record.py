"""What a prefill hands to a decode, possibly of another process: one record per request."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_names import CACHE_PREFIX, DRAFT_CACHE_PREFIX, HIDDEN_CACHE
from ascendfx.runtime.arguments import checked_path
from ascendfx.runtime.engine.handover import kept_rows
from ascendfx.runtime.engine.transfer_file import read_record, write_record


@dataclass(frozen=True, eq=False)
class TransferRecord:
    """A request whose prompt has been read, with everything that its decode needs.

    The layout of its file is in runtime/engine/README.md.

    Attributes:
        model: Hash of the programs, with a sample of the weights.
        tokens: i32 ``[length]``, the prompt.
        first_token: The token behind it.
        drafts: Draft tokens behind that; empty: the first decode step has none.
        options: Row of ``options``: how tokens are chosen.
        state: Row of ``state``: seed, limits, drafts that are wanted, or that the engine chooses.
        stop_ids: Row of ``stop_ids``.
        caches: By cache, the rows of the request's tokens in order, without blocks. Of
            ``cache.hidden``, if there is one, those of the last tokens.
    """

    model: str
    tokens: NDArray[np.int32]
    first_token: int
    drafts: tuple[int, ...]
    options: NDArray[np.float32]
    state: NDArray[np.int32]
    stop_ids: NDArray[np.int32]
    caches: Mapping[str, NDArray[Any]]

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self.tokens.size

    @property
    def bytes_per_token(self) -> int:
        """Bytes of cache entries per token, those of draft layers included."""
        return self._bytes_per_token(CACHE_PREFIX)

    @property
    def draft_bytes_per_token(self) -> int:
        """Bytes of cache entries per token that draft layers add."""
        return self._bytes_per_token(DRAFT_CACHE_PREFIX)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(each.nbytes for each in self.tensors().values())

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return every tensor by its name in the file."""
        return {
            "tokens": self.tokens,
            "first": np.array([self.first_token, *self.drafts], np.int32),
            "options": self.options,
            "state": self.state,
            "stop_ids": self.stop_ids,
            **self.caches,
        }

    def save(self, path: "str | PathLike[str]") -> None:
        """Write one safetensors file; it appears when it is complete.

        Raises:
            GraphError: The disk is full or not writable.
        """
        write_record(checked_path("path", path), {"model": self.model}, self.tensors())

    @staticmethod
    def load(path: "str | PathLike[str]") -> "TransferRecord":
        """Return the record of a file.

        Raises:
            GraphError: There is no such file, it is damaged, or it has another version.
        """
        fields, tensors = read_record(checked_path("path", path))
        first, *drafts = tensors["first"].tolist()
        caches = {name: each for name, each in tensors.items() if name.startswith(CACHE_PREFIX)}
        return TransferRecord(
            model=fields["model"],
            tokens=tensors["tokens"],
            first_token=first,
            drafts=tuple(drafts),
            options=tensors["options"],
            state=tensors["state"],
            stop_ids=tensors["stop_ids"],
            caches=caches,
        )

    def check(self, model: str, drafts: int, caches: Mapping[str, NDArray[Any]]) -> None:
        """Check that an engine can go on from here.

        Args:
            model: Hash of the engine's model.
            drafts: Draft tokens of its steps.
            caches: Of its device.

        Raises:
            GraphError: The record is of another model, element format or form.
        """
        if self.model != model:
            raise _refused(
                f"the record is of model {self.model[:12] or 'without a hash'}, "
                f"the engine runs {model[:12] or 'one without a hash'}"
            )
        if self.drafts and len(self.drafts) != drafts:
            raise _refused(f"it has {len(self.drafts)} draft tokens, a step here has {drafts}")
        missing, extra = caches.keys() - self.caches.keys(), self.caches.keys() - caches.keys()
        if missing or extra:
            name = min(missing or extra)
            raise _refused(f"{'it lacks' if missing else 'the engine does not have'} `{name}`")
        for name, cache in caches.items():
            rows, wanted = self.caches[name], kept_rows(name, cache, self.length)
            if rows.dtype != cache.dtype:
                raise _refused(f"`{name}` is {rows.dtype}, the engine keeps {cache.dtype}")
            if rows.shape != wanted:
                raise _refused(
                    f"`{name}` has shape {list(rows.shape)}, for {self.length} tokens it is "
                    f"{list(wanted)} here"
                )

    def _bytes_per_token(self, prefix: str) -> int:
        names = (each for each in self.caches if each.startswith(prefix) and each != HIDDEN_CACHE)
        return sum(self.caches[name][:1].nbytes for name in names)


def _refused(why: str) -> GraphError:
    return GraphError(
        "other-record",
        f"the engine cannot go on from this record: {why}",
        hint="prefill and decode need the same model, `dtype`, executor and `draft_tokens`",
    )
