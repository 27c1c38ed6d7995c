"""The bundled model with its draft layer under recipes, and how it differs from itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ascendfx import bundled_model
from ascendfx.ir.op import Array
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.quant_passes.calibration.gathered_rows import Collected
from ascendfx.quant_passes.calibration.mixture import mix
from ascendfx.quant_passes.calibration.statistics_by_layer import statistics_by_layer
from ascendfx.quant_passes.insertion.sites import Site, sites_of
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, SitePolicy
from ascendfx.quant_passes.statistics import InputStatistics, without_tokens
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.quantize.calibrated_model import CalibratedModel
from tests.benchmarks.parts.fake_quantized import FakeQuantized, Inputs, by_token, narrow

AT_ONCE = 16
"""Texts."""
BYTES = 2
"""Of a weight that keeps its format."""
LATENT_READER = ".kv_b_proj.weight"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a model makes of texts.

    Attributes:
        logarithms: Of probabilities, ``[texts, length, vocabulary]``.
        drafts: Row ``i`` is the token at ``i + 2`` that the draft layer finds most likely.
    """

    logarithms: NDArray[np.float32]
    drafts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Figures:
    """How a model differs from the one that it was made of, place by place of the texts.

    Attributes:
        text: To which text a place belongs.
        told: Logarithm of the probability of the next token; NaN at the end of a text.
        divergence: KL(original | this), in nats.
        same: Whether the most likely token is the same.
        accepted: Whether what is drafted for the next place is most likely there; NaN at the ends.
    """

    text: NDArray[np.int64]
    told: NDArray[np.float64]
    divergence: NDArray[np.float64]
    same: NDArray[np.bool_]
    accepted_or_not: NDArray[np.float64]

    @classmethod
    def of(cls, ran: Ran, true: Ran, ids: NDArray[np.int64], there: NDArray[np.bool_]) -> "Figures":
        """Compare two models over texts; only places that are there count."""
        told = np.full(ids.shape, np.nan)
        divergence, same = np.zeros(ids.shape), np.zeros(ids.shape, np.bool_)
        accepted = np.full(ids.shape, np.nan)
        for row, (own, other) in enumerate(zip(ran.logarithms, true.logarithms, strict=True)):
            follows = np.flatnonzero(there[row])[:-1]
            told[row, follows] = own[follows, ids[row, follows + 1]]
            divergence[row] = (np.exp(other) * (other - own)).sum(-1, dtype=np.float64)
            likely = own.argmax(-1)
            same[row] = likely == other.argmax(-1)
            accepted[row, follows] = ran.drafts[row, follows] == likely[follows + 1]
        text = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
        return cls(text[there], told[there], divergence[there], same[there], accepted[there])

    @property
    def perplexity(self) -> float:
        """Of all texts."""
        return float(np.exp(-np.nanmean(self.told)))

    @property
    def accepted(self) -> NDArray[np.float64]:
        """Whether drafts are right, where there are some."""
        return self.accepted_or_not[~np.isnan(self.accepted_or_not)]

    def part(self, texts: NDArray[np.bool_]) -> "Figures":
        """Return those of some texts."""
        chosen = texts[self.text]
        return Figures(
            self.text[chosen],
            self.told[chosen],
            self.divergence[chosen],
            self.same[chosen],
            self.accepted_or_not[chosen],
        )


@dataclass(frozen=True, slots=True)
class Made:
    """A quantized model.

    Attributes:
        weights: As the numbers that codes stand for, float32.
        inputs: What becomes of inputs.
        bytes: Of all weights.
    """

    weights: Mapping[str, Array]
    inputs: Inputs
    bytes: int


class BundledModel:
    """Program, draft program and weights, all in float32."""

    def __init__(self) -> None:
        """Capture; needs torch."""
        captured = capture_model(bundled_model(), drafts=True)
        self.program = run_pipeline(captured.program, (*RAISE, ShareCommon()))[0]
        self.draft = run_pipeline(captured.drafts[0], (*RAISE, ShareCommon()))[0]
        self.source = captured.source
        keys = checkpoint_types(self.program) | checkpoint_types(self.draft)
        self.weights = {key: narrow(np.asarray(self.source.load(key))) for key in keys}
        self.bytes = BYTES * sum(each.size for each in self.weights.values())
        self._found: dict[Calibration, Mapping[str, InputStatistics]] = {}

    def run(self, weights: Mapping[str, Array], inputs: Inputs, ids: NDArray[np.int64]) -> Ran:
        """Return what the model makes of texts, some at a time."""
        found: list[Array] = []
        drafts: list[Array] = []
        for first in range(0, len(ids), AT_ONCE):
            part = ids[first : first + AT_ONCE]
            main = FakeQuantized(self.program, weights, inputs, part)
            found.append(log_softmax(main.logits()))
            following = np.concatenate([part[:, 1:], np.zeros_like(part[:, :1])], 1)
            draft = FakeQuantized(self.draft, weights, inputs, following, main.hidden)
            drafts.append(draft.logits().argmax(-1))
        return Ran(np.concatenate(found), np.concatenate(drafts))

    def quantized(self, recipe: Recipe) -> Made:
        """Return the model under a recipe."""
        model = None
        if recipe.needs and recipe.calibration.inputs == "quantized":
            model = CalibratedModel(self.program, self.source, windows(recipe.calibration), recipe)
        changed = dict(self.weights)
        dynamic: set[str] = set()
        saved = 0
        for program, is_draft in ((self.program, False), (self.draft, True)):
            for site in sites_of(program):
                made = np.empty_like(self.weights[site.key])
                for name, part, place in _parts(site, self.weights[site.key], made):
                    policy = recipe.policy_of(name, draft=is_draft)
                    if policy is None:
                        place[...] = part
                        continue
                    if policy.activation == "dynamic":
                        dynamic.add(site.key)
                    before = model.made(name) if model else None
                    tensor = (
                        before.tensor
                        if before
                        else policy.algorithm.quantize(
                            part, policy.spec, self._known(recipe, policy, name, part.shape[1])
                        ).tensor
                    )
                    place[...] = tensor.decode()
                    saved += BYTES * part.size - tensor.bytes
                changed[site.key] = made

        def inputs(key: str, x: Array) -> Array:
            latent = recipe.cache is not None and key.endswith(LATENT_READER)
            return by_token(x) if latent or key in dynamic else x

        return Made(changed, inputs, self.bytes - saved)

    def _known(
        self, recipe: Recipe, policy: SitePolicy, name: str, channels: int
    ) -> InputStatistics | None:
        """Return what a weight sees in the model as it is."""
        if not policy.needs:
            return None
        return self._statistics(recipe.calibration).get(name) or without_tokens(channels)

    def _statistics(self, calibration: Calibration) -> Mapping[str, InputStatistics]:
        """Return the statistics of all weights, which recipes share."""
        if calibration not in self._found:
            self._found[calibration] = dict(self._collected(calibration))
        return self._found[calibration]

    def _collected(self, calibration: Calibration) -> Iterator[tuple[str, InputStatistics]]:
        read = windows(calibration)
        for layer in statistics_by_layer(
            self.program, self.source, read, lambda _key: Collected(moments=True)
        ):
            for key, experts in layer.rows.items():
                for expert, names in enumerate(parts_of(key, len(experts)) or ((key,),)):
                    for name in names:
                        yield name, layer.of(key, expert)


@cache
def windows(calibration: Calibration) -> NDArray[np.int64]:
    """Return the tokens of calibration."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    return mix(calibration, lambda text: tokenizer.encode(text).ids, 1 << 31).windows


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return logarithms of probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _parts(site: Site, whole: Array, made: Array) -> Iterator[tuple[str, Array, Array]]:
    """Yield name, numbers and place of each tensor of the checkpoint that a weight is made of."""
    shape = (site.experts, *whole.shape[-2:])
    for expert, names in enumerate(parts_of(site.key, site.experts) or ((site.key,),)):
        numbers = np.split(whole.reshape(shape)[expert], len(names))  # as many rows each
        places = np.split(made.reshape(shape)[expert], len(names))
        yield from zip(names, numbers, places, strict=True)
