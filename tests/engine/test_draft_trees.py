"""Engines whose steps verify draft trees: limits, requests, figures, and random schedules."""

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.engine.draft_policy import DraftPolicy, ExpectedGain
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.metrics import Tally, add_group, no_sums
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.verification import NAMES
from ascendfx.runtime.limits import Limits
from tests.engine.schedules import COMMON, POLICIES, Schedules
from tests.engine.served import run, served_by
from tests.engine.toy_model import expected
from tests.engine.tree_executor import TreeExecutor

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

CONTEXT = 24


class TreeSchedules(Schedules):
    """With up to 6 drafts in a tree; requests are verified by equality, without penalties."""

    @initialize(
        branches=st.sampled_from([(2,), (1, 2), (2, 1), (3, 2), (2, 2, 2), (4, 1, 1)]),
        places=st.integers(1, 4),
        block_tokens=st.sampled_from([1, 2, 4]),
        spare=st.integers(0, 16),
        chunk=st.integers(1, 6),
        steps=st.integers(1, 4),
        right=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        policy=st.sampled_from(POLICIES),
        native=st.booleans(),
    )
    def begin(
        self,
        *,
        policy: ExpectedGain | DraftPolicy | None,
        native: bool,
        block_tokens: int,
        spare: int,
        **sizes: Any,
    ) -> None:
        table = CONTEXT // block_tokens
        self.device = TreeExecutor(
            block_tokens=block_tokens,
            table_blocks=table,
            blocks=table + spare // block_tokens,
            **sizes,
        )
        self.serve(policy, native=native)

    def allowed(self, sampling: Sampling) -> Sampling:
        kept = ("temperature", "top_k", "top_p", "min_p", "seed")
        return Sampling(**{name: getattr(sampling, name) for name in kept})


def test_schedules() -> None:
    run_state_machine_as_test(TreeSchedules, settings=settings(COMMON, max_examples=100))


def engine(*branches: int, **options: Any) -> Engine:
    device = TreeExecutor(branches, places=4, blocks=200, table_blocks=12, chunk=8, **options)
    return served_by(device)


def test_drafts_are_accepted_from_leaves() -> None:
    """Drafts that are not right have the right token among the best: a leaf."""
    rates: list[tuple[float, ...]] = []
    for branches in ((1, 2), (2, 2), (9, 2)):
        served = engine(*branches, right=0.0)
        request = Request(prompt=(1, 16), max_new_tokens=24)
        (found,) = served.start([request])
        assert run(served)[found][0] == expected(request, frozenset())[0]
        rates.append(served.metrics.acceptance)
    first, second = zip(*rates, strict=True)
    assert first[0] < first[2] >= first[1] >= first[0]
    assert not any(second)  # nothing follows a leaf


def test_a_right_spine_is_accepted_to_its_end() -> None:
    served = engine(2, 1, 2, right=1.0)
    served.start([Request(prompt=(1, 16), max_new_tokens=24)])
    run(served)
    assert served.metrics.acceptance == (1.0, 1.0, 1.0)
    assert served.metrics.request_steps == 6  # 23 tokens behind the first


def test_figures_by_position_and_of_requests_agree() -> None:
    served = engine(2, 1, 2, right=0.8)
    served.start(
        [Request(prompt=(1, i), max_new_tokens=5 * i + 7, stop_ids=range(i)) for i in range(3)]
    )
    run(served)
    metrics, each = served.metrics, served.metrics.ended.values()
    assert sum(metrics.proposed) == sum(one.proposed for one in each) > 0
    assert sum(metrics.accepted) == sum(one.accepted for one in each) > 0


@pytest.mark.parametrize("verification", NAMES[1:])
def test_other_verifications_are_refused(verification: str) -> None:
    with pytest.raises(GraphError) as caught:
        engine(2, 1).start(
            [Request(prompt=(1,), max_new_tokens=4, sampling=Sampling(verification=verification))]
        )
    assert caught.value.code == "draft-tree-request"
    assert f"prompt 0 wants verification `{verification}`" in caught.value.reason
    assert "compile with `draft_tokens`" in caught.value.hint


@pytest.mark.parametrize("name", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_penalties_are_refused(name: str) -> None:
    sampling = Sampling(**{name: 0.5})  # pyright: ignore[reportArgumentType]
    with pytest.raises(GraphError, match="prompt 1 wants penalties"):
        engine(2).start(
            [
                Request(prompt=(1,), max_new_tokens=4),
                Request(prompt=(1,), max_new_tokens=4, sampling=sampling),
            ]
        )


def test_a_request_has_no_more_drafts_than_the_tree_is_deep() -> None:
    with pytest.raises(GraphError, match="draft_tokens must be at most 2, got 3"):
        engine(3, 2).start([Request(prompt=(1,), max_new_tokens=4, draft_tokens=3)])


def test_figures_count_candidates_of_a_depth_once() -> None:
    tree = DraftTree((3, 2))
    sums = no_sums(tree.drafts)
    counts = np.array([[1, 3], [2, 1], [3, 2]])
    asked = np.array([[3, 0], [5, 5], [5, 5]])
    add_group(sums, counts, asked, np.array([3, 3], np.int32), np.array([False, False]))
    result = Tally(sums, tree).result({})
    assert result.proposed == (5, 4)
    assert result.accepted == (4, 2)


@pytest.mark.parametrize(
    ("branches", "drafts", "rest"),
    [((), 0, ((), 0)), ((1, 1), 2, ((), 2)), ([2, 1], 3, ((2, 1), 2)), ((15,), 15, ((15,), 1))],
)
def test_limits_with_a_tree(branches: Any, drafts: int, rest: Any) -> None:
    limits = Limits(max_batch=2, max_context=100, draft_tree=branches)
    assert (limits.draft_tree, limits.draft_tokens) == rest
    assert limits.drafts == drafts
    assert limits.context == 100 + drafts
    assert limits.step("decode").rows == 2 * (1 + drafts)
    assert limits == Limits(2, 100, draft_tokens=rest[1], draft_tree=branches)


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        ({"draft_tree": (16,)}, "limit-too-large", "draft_tree=16 has 17 rows and 1 depths"),
        ({"draft_tree": (2,) + (1,) * 8}, "limit-too-large", "has 11 rows and 9 depths"),
        ({"draft_tree": (2, 0)}, "bad-limit", "draft_tree must be at least 1, got 0"),
        ({"draft_tree": (2, "1")}, "bad-limit", "draft_tree must be at least 1, got '1'"),
        ({"draft_tree": "21"}, "bad-argument", "draft_tree"),
        ({"draft_tree": b"21"}, "bad-argument", "draft_tree"),
        ({"draft_tree": 3}, "bad-argument", "draft_tree"),
        ({"draft_tree": (3, 1), "draft_tokens": 3}, "bad-limit", "draft_tree=3,1 has 2 depths"),
    ],
)
def test_trees_that_are_refused(options: dict[str, Any], code: str, reason: str) -> None:
    with pytest.raises(GraphError) as caught:
        Limits(**options)
    assert caught.value.code == code
    assert reason in caught.value.reason


def test_trees_of_the_command_line() -> None:
    wrong = CliRunner().invoke(cli, ["demo", "--draft-tree", "2,x"])
    assert wrong.exit_code == 2
    assert "`2,x` is no list of numbers such as 3,2,1" in wrong.output
    large = CliRunner().invoke(cli, ["demo", "--draft-tree", "9,9"])
    assert large.exit_code == 2
    assert "--draft-tree 9,9 has 19 rows and 2 depths" in large.output
