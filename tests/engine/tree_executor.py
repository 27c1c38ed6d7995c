"""Steps with draft trees on NumPy: `FakeExecutor`, whose rows are nodes."""

from typing import Any

import numpy as np

from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.ops import AdvanceRequests, BranchDrafts, MoveEntries, SampleTokens, VerifyTree
from ascendfx.ir.step_state import Finish, State
from tests.engine.fake_executor import CHANGED, Array, FakeExecutor, newest_first
from tests.engine.toy_model import VOCABULARY, logits_of


class TreeExecutor(FakeExecutor):
    """The contract of a step whose rows are nodes of a tree, executed."""

    def __init__(self, branches: tuple[int, ...], **sizes: Any) -> None:
        self.tree = DraftTree(branches)
        super().__init__(drafts=self.tree.drafts, branches=branches, **sizes)
        rows = self.controls["positions"].size
        self.controls["ancestors"] = np.full(rows, 77, np.int32)
        del self.controls["draft_ids"], self.controls["draft_probs"]

    def _step(self) -> None:
        controls, tree = self.controls, self.tree
        rows, places, _ = controls["sizes"][:3].tolist()
        each = tree.drafts + 1
        assert rows == places * each
        ids, positions, slots, owner = (
            controls[name][:rows] for name in ("token_ids", "positions", "slots", "row_request")
        )
        assert owner.tolist() == np.repeat(np.arange(places), each).tolist()
        assert controls["ancestors"].tolist() == [*tree.ancestors] * (len(controls["state"]))
        assert (positions.reshape(places, each) >= tree.depths).all()
        self._store(ids, positions, slots, owner)
        logits = self._logits(places)
        controls["logits"][:rows] = logits
        state, options = controls["state"][:places], controls["options"][:places]
        table, stops = controls["block_table"][:places], controls["stop_ids"][:places]
        choice = (logits, options, state, stops, positions, owner, self._counts)
        (sampled,) = SampleTokens().reference(*choice)
        accepted, last, new, path = VerifyTree(tree.parents).reference(ids, sampled, state)
        drafts = self._branch(places, last, accepted, new)
        parts = [each.reshape(-1, self.block, 1) for each in (self._tokens, self._places)]
        moved = MoveEntries(each, 2).reference(*parts, table, state, path)
        self._tokens[:], self._places[:] = (part.reshape(-1) for part in moved)
        *changed, self._counts[:] = AdvanceRequests(
            tree.drafts, self.block, tree.parents
        ).reference(
            *(ids, positions, slots, table, state, stops, accepted, new),
            *(controls["emitted"][:, :places], controls["step"], self._counts, options, path),
            *drafts,
        )
        for name, values in zip(CHANGED, changed, strict=True):
            target = controls[name]
            (target[:, :places] if name == "emitted" else target[: len(values)])[:] = values
        for place in np.flatnonzero(state[:, State.FINISHED] == Finish.RUNS).tolist():
            length = int(state[place, State.LENGTH])
            controls["recent"][place] = newest_first(self._prefix(table[place], length - 1))

    def _logits(self, places: int) -> Array:
        """Return what the model says behind each valid node of requests that run."""
        controls, tree = self.controls, self.tree
        each = tree.drafts + 1
        context = int(controls["sizes"][2])
        logits = np.zeros((places * each, VOCABULARY))
        for place, state in enumerate(controls["state"][:places]):
            finished, length = state[State.FINISHED], int(state[State.LENGTH])
            if finished not in (Finish.RUNS, Finish.NOT_FINITE):
                continue
            for node in range(min(int(state[State.DRAFTED]), tree.drafts) + 1):
                row = place * each + node
                assert controls["positions"][row] == length + tree.depths[node] < context
                right = self._slot(controls["block_table"][place], length + node)
                assert finished or controls["slots"][row] == right, f"slot of row {row}"
                logits[row] = logits_of(self._text(place, node))
            if not finished:
                before = self._text(place, 0)[:-1]
                assert controls["recent"][place].tolist() == newest_first(before)
        return logits

    def _text(self, place: int, node: int) -> list[int]:
        """Return the tokens up to a node, as its row finds them in the cache."""
        table, length = self.controls["block_table"][place], self.controls["state"][place, 0]
        seen = [i for i in range(node + 1) if self.tree.ancestors[node] >> i & 1]
        if self.controls["state"][place, State.FINISHED]:
            rows = [place * (self.tree.drafts + 1) + i for i in seen]
            tokens = self.controls["token_ids"][rows].tolist()
        else:
            slots = [self._slot(table, int(length) + i) for i in seen]
            assert (self._places[slots] == length + np.arange(len(seen))).all()
            tokens = self._tokens[slots].tolist()
        return [*(self._prefix(table, int(length) - 1)), *tokens]

    def _branch(self, places: int, last: Array, accepted: Array, new: Array) -> list[Array]:
        """Return the drafts of all nodes."""
        state, stops = (self.controls[name][:places] for name in ("state", "stop_ids"))
        each, drafts = self.tree.drafts + 1, list[Array]()
        spine: list[Array] = []
        for depth, count in enumerate(self.tree.branches):
            logits = np.zeros((places, VOCABULARY))
            for place in np.flatnonzero((state[:, State.FINISHED] == 0) & (new >= 0)).tolist():
                text = self._text(place, int(last[place]) % each)
                behind = [int(new[place]), *(int(known[place]) for known in spine)]
                logits[place] = self._draft_logits([*text, *behind])
            made = BranchDrafts(depth, count).reference(logits, state, stops, accepted)
            spine.append(made[0])
            drafts += made
        return drafts
