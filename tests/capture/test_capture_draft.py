"""A draft module of a user becomes a program beside the model, or is refused with one message."""

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from torch import Tensor, nn

from ascendfx.ir.capture.capture_draft import capture_draft
from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.program import Program, param_names
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.serving_steps import ServingSteps
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.presets import TO_SERVING
from tests.capture.draft_and_main import CAPTURED, MAIN, make_main
from tests.capture.draft_modules import (
    WIDTH,
    BatchMoved,
    OfTheModel,
    OpenModel,
    TokenWise,
    WrittenOut,
)
from tests.capture.tiny_models import VOCABULARY, random_weights
from tests.models.draft_steps import assert_pieces_equal_the_whole, in_one_go, pieces
from tests.passes.serving_steps import full_logits, spans

PHASES = (Phase.explicit, Phase.generate)  # nothing to shrink: every example is small
# Float64 sums of at most 96 terms around one, thirty operations deep.
ATOL = 1e-11


DRAFTS: dict[str, Callable[[Any], nn.Module]] = {
    "written out": WrittenOut,
    "written out, one hidden state": lambda main: WrittenOut(main, results=2),
    "written out, logits": lambda main: WrittenOut(main, results=1),
    "a list of layers": lambda main: OfTheModel(main, 3, results=2, listed=True),
    "a layer in the open": lambda main: OfTheModel(main, 1, results=3, listed=False),
    "layers in the open, logits": lambda main: OfTheModel(main, 2, results=1, listed=False),
    "token-wise": TokenWise,
}


@cache
def captured_with(name: str) -> tuple[CapturedModel, nn.Module]:
    main = make_main()
    module = random_weights(DRAFTS[name](main), 3)  # writes the tensors that it shares, too
    return capture_draft(module, main, capture_module(main)), module


@pytest.mark.parametrize("name", DRAFTS)
def test_a_draft_computes_what_the_module_does(name: str) -> None:
    captured, module = captured_with(name)
    random = np.random.default_rng(0)
    ids, hidden = random.integers(0, VOCABULARY, 7), random.standard_normal((7, WIDTH))
    found = in_one_go(captured.drafts[0], TensorsByKey(captured.source), ids, hidden)
    with in_float64(deepcopy(module)) as wide:
        theirs = wide(torch.from_numpy(ids[None]), torch.from_numpy(hidden[None]))
    logits, *states = [theirs] if isinstance(theirs, Tensor) else list(theirs)
    states = [each[0].numpy() for each in states] or [hidden]
    for mine, its in zip(found, [logits[0].numpy(), states[0], states[-1]], strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=ATOL)


@pytest.mark.parametrize("name", DRAFTS)
@given(lengths=pieces())
@settings(max_examples=5, phases=PHASES)
def test_steps_of_any_size_equal_the_full_forward(name: str, lengths: list[list[int]]) -> None:
    captured, _ = captured_with(name)
    assert_pieces_equal_the_whole(
        captured.drafts[0],
        serving_form(name),
        TensorsByKey(captured.source),
        lengths,
        vocabulary=VOCABULARY,
        width=WIDTH,
        atol=ATOL,
    )


@cache
def serving_form(name: str) -> Program:
    return run_pipeline(captured_with(name)[0].drafts[0], TO_SERVING)[0]


def test_a_layer_in_the_open_has_the_caches_of_an_outlined_one() -> None:
    of_list, in_open = map(serving_form, ("a list of layers", "a layer in the open"))
    kinds = in_open.main.input_types
    assert [str(kinds[f"cache.0.{i}"]) for i in range(2)] == [
        "f32[blocks, 128, 16]",
        "f32[blocks, 128, 1, 8]",
    ]
    assert len(in_open.graphs) == 1
    assert len(of_list.graphs) == 2, "three equal layers are one function"
    for i in range(3):
        for j in range(2):
            assert of_list.main.input_types[f"cache.{i}.{j}"] == kinds[f"cache.0.{j}"]


def test_what_only_the_logits_need_is_computed_for_the_chosen_rows() -> None:
    rows = {
        name: [
            str(node.types[0])
            for node in serving_form(name).main.nodes
            if node.op.mnemonic == "silu"
        ]
        for name in ("written out", "written out, logits")
    }
    assert rows["written out"] == ["f32[rows, 48]"], "the hidden state of every row needs it"
    assert rows["written out, logits"] == ["f32[requests, 48]"]


def test_tensors_of_the_model_keep_its_keys_and_others_get_a_prefix() -> None:
    module = WrittenOut(MAIN)
    captured = capture_draft(module, MAIN, CAPTURED)
    (draft,) = captured.drafts
    own = {
        f"draft.{name}" for name in module.state_dict() if not name.startswith(("embed", "head"))
    }
    assert set(param_names(draft.main)) == own | {"model.embed_tokens.weight", "lm_head.weight"}
    for name in own:
        expected = module.state_dict()[name.removeprefix("draft.")].numpy()
        np.testing.assert_array_equal(captured.source.load(name), expected)
    assert captured.program is CAPTURED.program
    paths = {node.location.module for node in draft.main.nodes if node.operands}
    assert "draft.join" in paths
    assert all(path.split(".")[0] == "draft" for path in paths)


def test_a_parameter_that_only_shares_memory_is_the_same_tensor() -> None:
    module = WrittenOut(MAIN)
    module.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
    module.head.weight = nn.Parameter(MAIN.lm_head.weight.data)
    (draft,) = capture_draft(module, MAIN, CAPTURED).drafts
    assert "lm_head.weight" in param_names(draft.main)


def test_with_a_tied_head_the_draft_has_one_tensor_for_both() -> None:
    main = make_main(tie_word_embeddings=True)
    captured = capture_model(main, drafts=WrittenOut(main))
    names = [name for name in param_names(captured.drafts[0].main) if "draft" not in name]
    assert names == ["model.embed_tokens.weight"]


def test_beside_a_directory_nothing_is_shared(tmp_path: Path) -> None:
    MAIN.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_nextn_predict_layers": 0}))
    captured = capture_model(tmp_path, dtype=DType.BF16, drafts=WrittenOut(MAIN))
    (draft,) = captured.drafts
    assert all(name.startswith("draft.") for name in param_names(draft.main))
    assert draft.main.input_types["hidden"].dtype is DType.BF16
    assert captured.source.dtype("draft.join.weight") is DType.BF16
    assert captured.source.load("draft.embed.weight").dtype == DType.BF16.numpy


def test_neither_module_is_changed() -> None:
    module = OfTheModel(MAIN, 1, results=2, listed=True)
    module.train()
    before = {name: id(each) for name, each in [*module.named_parameters(), *MAIN.named_modules()]}
    capture_draft(module, MAIN, CAPTURED)
    after = {name: id(each) for name, each in [*module.named_parameters(), *MAIN.named_modules()]}
    assert before == after
    assert module.training
    assert MAIN.config._experts_implementation == "eager"


class _Returns(nn.Module):
    """Returns what a function makes of logits and hidden states."""

    def __init__(self, make: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.head = MAIN.lm_head
        self.make = (make,)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Any:
        del token_ids
        return self.make[0](self.head(hidden), hidden)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda logits, _: {"logits": logits}, "returns dict"),
        (lambda logits, hidden: (logits, hidden, hidden, hidden), "Tensor, Tensor, Tensor, Tensor"),
        (lambda logits, _: (logits, None), "returns Tensor, NoneType"),
        (lambda *_: (), "returns tuple"),
        (lambda logits, hidden: (logits, hidden[..., :5]), "is float32[_, _, 5], it reads float32"),
        (lambda logits, hidden: (logits, hidden.double()), "is float64[_, _, 32]"),
        (lambda logits, _: logits[:, -1], "logits of the draft layer are float32[_, 61]"),
        (lambda logits, hidden: (logits[..., :60], hidden), "knows 60 tokens, the model 61"),
    ],
)
def test_a_draft_that_returns_something_else_is_refused(
    make: Callable[[Tensor, Tensor], Any], part: str
) -> None:
    with pytest.raises(GraphError, match=r"error\[draft-results\]") as caught:
        capture_draft(_Returns(make), MAIN, CAPTURED)
    assert part in caught.value.reason


class _LooksUp(nn.Module):
    """Reads a table by the token ids, or by numbers made of them."""

    def __init__(self, rows: int, choose: Callable[[Tensor], Tensor] = lambda ids: ids) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(rows, 32), MAIN.lm_head
        self.choose = (choose,)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Tensor:
        return self.head(self.embed(self.choose[0](token_ids)) + hidden)


def test_a_draft_that_looks_up_fewer_tokens_is_refused() -> None:
    for choose in (lambda ids: ids, lambda ids: ids.unsqueeze(-1).long().squeeze(-1)):
        with pytest.raises(GraphError, match=r"error\[draft-results\]") as caught:
            capture_draft(_LooksUp(VOCABULARY - 1, choose), MAIN, CAPTURED)
        assert "looks up 60 token ids, the model has 61" in caught.value.reason
        assert caught.value.location is not UNKNOWN


def test_a_draft_may_look_up_more_tokens_or_choose_rows_otherwise() -> None:
    assert capture_draft(_LooksUp(VOCABULARY + 3), MAIN, CAPTURED).drafts
    assert capture_draft(_LooksUp(7, lambda ids: ids % 7), MAIN, CAPTURED).drafts


def test_a_model_that_cannot_look_its_own_tokens_up_is_refused() -> None:
    class Short(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Embedding(60, 32)])  # a function of its own
            self.head = nn.Linear(32, VOCABULARY)

        def forward(self, token_ids: Tensor) -> Tensor:
            return self.head(self.layers[0](token_ids))

    with pytest.raises(GraphError, match=r"error\[small-embedding\]") as caught:
        capture_model(Short())
    assert "gives 61 tokens logits, but looks up 60" in caught.value.reason


def test_a_model_without_its_head_is_refused() -> None:
    class Headless(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Embedding(60, 32), nn.Linear(32, width)])

        def forward(self, token_ids: Tensor) -> Tensor:
            return self.layers[1](self.layers[0](token_ids))

    with pytest.raises(GraphError, match=r"error\[no-logits\]") as caught:
        capture_model(Headless(32))
    assert "returns 32 numbers for each token" in caught.value.reason
    for width in (31, 33, 60):  # fewer answers than questions: a model may have those
        assert capture_model(Headless(width)).facts.vocabulary == width
    with pytest.raises(GraphError, match=r"error\[no-logits\]"):
        capture_model(MAIN.model)


def test_a_draft_that_is_no_module_is_refused() -> None:
    with pytest.raises(GraphError, match=r"error\[no-draft\].*`function`"):
        capture_draft(lambda ids, hidden: (ids, hidden), MAIN, CAPTURED)  # pyright: ignore[reportArgumentType]


def test_a_model_whose_logits_are_no_projection_has_no_drafts() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, VOCABULARY)

        def forward(self, token_ids: Tensor) -> Tensor:
            return self.embed(token_ids) * 2

    with pytest.raises(GraphError, match=r"error\[no-draft\].*no projection"):
        capture_model(Scaled(), drafts=WrittenOut(MAIN))


def test_an_error_in_a_draft_names_its_line() -> None:
    def make(logits: Tensor, hidden: Tensor) -> Any:
        if hidden.sum() > 0:  # control flow that depends on values
            return logits
        return logits + 1

    with pytest.raises(GraphError, match=r"error\[data-dependent\]") as caught:
        capture_draft(_Returns(make), MAIN, CAPTURED)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_a_draft_that_moves_the_axis_of_texts_is_refused_where_it_does() -> None:
    (draft,) = capture_draft(BatchMoved(MAIN), MAIN, CAPTURED).drafts
    with pytest.raises(GraphError, match=r"error\[batch-axis\].*transpose") as caught:
        run_pipeline(draft, TO_SERVING)
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("draft_modules.py")


@given(lengths=pieces())
@settings(max_examples=5, phases=PHASES)
def test_a_model_without_a_list_of_layers_is_served_too(lengths: list[list[int]]) -> None:
    captured, serving = in_the_open()
    tensors = TensorsByKey(captured.source)
    steps = ServingSteps(serving, tensors, len(lengths))
    random = np.random.default_rng(1)
    texts = [random.integers(0, VOCABULARY, sum(each)).tolist() for each in lengths]
    for turn in range(max(map(len, lengths))):
        active = [r for r in range(len(texts)) if turn < len(lengths[r])]
        bounds = [spans(lengths[r])[turn] for r in active]
        logits = steps.step(
            [texts[r][a:b] for r, (a, b) in zip(active, bounds, strict=True)], only=active
        )
        for row, (r, (_, stop)) in enumerate(zip(active, bounds, strict=True)):
            truth = full_logits(captured.program, tensors, texts[r])
            np.testing.assert_allclose(logits[row], truth[stop - 1], rtol=0, atol=ATOL)


@cache
def in_the_open() -> tuple[CapturedModel, Program]:
    captured = capture_model(random_weights(OpenModel(MAIN), 4))
    assert len(captured.program.graphs) == 1
    return captured, run_pipeline(captured.program, TO_SERVING)[0]
