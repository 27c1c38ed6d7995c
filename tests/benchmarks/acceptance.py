"""How often drafts of the bundled model are accepted: emulated, and in theory.

    python tests/benchmarks/acceptance.py [TEXTS]        default: 2 of each language and kind

First the golden prompts, greedy. Then held-out texts, which the model goes on with after their
first tokens, greedy and at temperature 0.7, by language and kind. For the latter the float64
reference says what each way to verify would accept at the very positions that were verified.
Times are of the emulator on this machine.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))

import ascendfx
from ascendfx import Engine, Request
from ascendfx.ir.op import Array
from ascendfx.runtime.engine.sampling import Sampling
from tests.models.bundled import golden_generations
from tests.models.reference_draft import ReferenceDraft

LEAST = {1: 1.65, 2: 2.1, 3: 2.4}
"""Tokens per step on the golden prompts; a loop over transformers reached 1.72, 2.20, 2.52."""
PROMPT, NEW = 40, 40
TEMPERATURE = 0.7
TEXTS = 2
VERIFIER = "sample-and-compare"
"""The way to verify that the plans have."""


@dataclass(frozen=True)
class Text:
    """Held-out text, cut after its first tokens.

    Attributes:
        group: Language and kind.
        prompt: Token ids.
    """

    group: str
    prompt: tuple[int, ...]


@dataclass
class Count:
    """Sums over steps.

    Attributes:
        steps: Decode steps.
        tokens: Their tokens.
        proposed: Drafts verified.
        accepted: Drafts accepted.
    """

    steps: int = 0
    tokens: int = 0
    proposed: int = 0
    accepted: int = 0

    def add(self, other: "Count") -> None:
        self.steps += other.steps
        self.tokens += other.tokens
        self.proposed += other.proposed
        self.accepted += other.accepted

    def __str__(self) -> str:
        rate = self.accepted / max(self.proposed, 1)
        return f"{rate:7.3f}{self.tokens / max(self.steps, 1):6.2f}"


@dataclass
class Theory:
    """Sums over the positions of a depth that were verified, at `TEMPERATURE`.

    Attributes:
        positions: How many.
        accepted: How many drafts were right.
        compared: Sum of p(d), d the most likely draft: what sample-and-compare accepts.
        sampled: Sum of p q: the same with a draft that is drawn.
        rejection: Sum of 1 - TV(p, q): what rejection sampling accepts.
        variance: Sum of p(d) (1 - p(d)), of the number accepted.
    """

    positions: int = 0
    accepted: int = 0
    compared: float = 0.0
    sampled: float = 0.0
    rejection: float = 0.0
    variance: float = 0.0

    def add(self, p: Array, q: Array, draft: int, *, right: bool) -> None:
        both, overlap = float(p @ q), float(np.minimum(p, q).sum())
        assert both <= overlap + 1e-12, "sum p q <= sum min(p, q), as both are at most 1"
        self.positions += 1
        self.accepted += right
        self.compared += p[draft]
        self.sampled += both
        self.rejection += overlap
        self.variance += p[draft] * (1 - p[draft])

    def join(self, other: "Theory") -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        n = max(self.positions, 1)
        deviation = (self.accepted - self.compared) / max(self.variance, 1e-9) ** 0.5
        values = (self.accepted, self.compared, self.sampled, self.rejection)
        figures = "".join(f"{value / n:10.3f}" for value in values)
        gain = (self.rejection - self.sampled) / n
        return f"{self.positions:10}{figures}{gain:10.3f}{deviation:8.1f}"


@dataclass
class Run:
    """What one engine did with all texts.

    Attributes:
        tokens: New tokens of each text.
        counts: By group.
        acceptance: Of each draft position, over all texts.
        seconds: Wall-clock time.
    """

    tokens: list[tuple[int, ...]] = field(default_factory=list)
    counts: dict[str, Count] = field(default_factory=dict)
    acceptance: tuple[float, ...] = ()
    seconds: float = 0.0


def say(what: str) -> None:
    """Show what is done, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def heldout(most: int) -> list[Text]:
    """Return the first texts of each language and kind that are long enough."""
    tokenizer = Tokenizer.from_file(str(ascendfx.bundled_model() / "tokenizer.json"))
    path = ascendfx.bundled_model() / "texts" / "heldout.jsonl"
    found: dict[str, list[Text]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        group = f"{row['language']} {row['kind']}"
        ids = tokenizer.encode(row["text"]).ids
        kept = found.setdefault(group, [])
        # A document of which there is one text is cut at several places.
        for start in range(0, len(ids) - PROMPT, 4 * PROMPT):
            if len(kept) < most:
                kept.append(Text(group, tuple(ids[start : start + PROMPT])))
    return [text for _, texts in sorted(found.items()) for text in texts]


def golden_figures(engines: dict[int, Engine]) -> None:
    """Print tokens per main-model step on the golden prompts."""
    golden = golden_generations()
    print(f"{len(golden)} bundled prompts, greedy, 64 new tokens, end tokens banned")
    print(f"{'k':>2}{'tokens per step':>17}{'at least':>10}{'seconds':>9}  accepted by position")
    for drafts, engine in engines.items():
        start = time.perf_counter()
        results = engine.generate(
            [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
        )
        seconds = time.perf_counter() - start
        metrics = engine.metrics
        rates = ", ".join(f"{rate:.3f}" for rate in metrics.acceptance)
        print(
            f"{drafts:2}{metrics.tokens_per_step:17.3f}{LEAST[drafts]:10.2f}{seconds:9.1f}  {rates}"
        )
        assert [each.token_ids for each in results] == [each.output_ids for each in golden]
        assert metrics.tokens_per_step >= LEAST[drafts]


def run(engine: Engine, texts: Sequence[Text], temperature: float, what: str) -> Run:
    """Let an engine go on with all texts."""
    done, before = Run(), engine.metrics
    start = time.perf_counter()
    ids = engine.start(
        [
            Request(
                prompt=text.prompt,
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                sampling=Sampling(temperature=temperature, seed=seed),
            )
            for seed, text in enumerate(texts)
        ]
    )
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    ended = 0
    while engine.busy:
        engine.step(8)
        for update in engine.poll():
            tokens[update.request] += update.token_ids
            if update.acceptance:
                ended += 1
                given = update.acceptance
                count = Count(given.steps, given.tokens - 1, given.proposed, given.accepted)
                group = texts[update.request - ids[0]].group
                done.counts.setdefault(group, Count()).add(count)
        say(f"{what}: {ended} of {len(ids)} texts")
    done.tokens = [tokens[each] for each in ids]
    after = engine.metrics
    pairs = zip(
        zip(before.accepted, before.proposed, strict=True),
        zip(after.accepted, after.proposed, strict=True),
        strict=True,
    )
    done.acceptance = tuple((b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairs)
    done.seconds = time.perf_counter() - start
    say("")
    return done


def show_runs(runs: dict[tuple[float, int], Run], texts: Sequence[Text]) -> None:
    """Print acceptance and tokens per step of each group."""
    print(
        f"\n{len(texts)} held-out texts: {NEW} tokens after the first {PROMPT}; {VERIFIER}: "
        "share of drafts accepted, and tokens per step"
    )
    heads = [f"T={t:g} k={k}" for t, k in runs]
    print(f"{'':12}{'texts':>6}" + "".join(f"{each:>13}" for each in heads))
    groups = sorted({text.group for text in texts})
    for group in groups:
        number = sum(text.group == group for text in texts)
        figures = "".join(str(each.counts[group]) for each in runs.values())
        print(f"{group:12}{number:6}{figures}")
    sums = [Count() for _ in runs]
    for whole, each in zip(sums, runs.values(), strict=True):
        for count in each.counts.values():
            whole.add(count)
    print(f"{'all':12}{len(texts):6}" + "".join(map(str, sums)))
    for (temperature, drafts), each in runs.items():
        rates = ", ".join(f"{rate:.3f}" for rate in each.acceptance)
        print(f"T={temperature:g} k={drafts}: by position {rates}; {each.seconds:.1f} s")


def softmax(logits: Array, banned: Sequence[int] = ()) -> Array:
    scaled = logits / TEMPERATURE
    scaled[..., list(banned)] = -np.inf
    weights = np.exp(scaled - scaled.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def theory(
    reference: ReferenceDraft, texts: Sequence[Text], done: Run, drafts: int, ends: Sequence[int]
) -> dict[str, list[Theory]]:
    """Return for each group what each depth would accept, where it was verified.

    A draft counts if those before it in its step were right. Its depth has then read the very
    tokens of the text, so that whole texts can be fed at once.
    """
    whole = np.array([(*t.prompt, *new) for t, new in zip(texts, done.tokens, strict=True)])
    found = {text.group: [Theory() for _ in range(drafts)] for text in texts}
    for start in range(0, len(texts), 16):
        say(f"float64 reference: {start} of {len(texts)} texts")
        part = whole[start : start + 16]
        logits, hidden = reference.main(part[:, :-1])
        p = softmax(logits[:, PROMPT - 1 :], ends)  # row i: the token PROMPT + i
        q: list[Array] = []
        for depth in range(drafts):
            ids = part[:, 1 + depth :]
            raw, hidden = reference.draft(depth, ids, hidden[:, : ids.shape[1]])
            q.append(softmax(raw[:, PROMPT - 1 :]))  # row i: the token PROMPT + i + 1 + depth
        for i, text in enumerate(texts[start : start + 16]):
            _add_text(found[text.group], part[i], p[i], [each[i] for each in q])
    say("")
    return found


def _add_text(sums: list[Theory], text: Array, p: Array, q: list[Array]) -> None:
    at = 0  # the newest token is PROMPT + at
    while at + len(sums) + 1 < NEW:
        right = True
        taken = 0
        for depth, each in enumerate(sums):
            row, place = at, at + 1 + depth
            draft = int(np.argmax(q[depth][row]))
            right = draft == text[PROMPT + place]
            each.add(p[place], q[depth][row], draft, right=right)
            if not right:
                break
            taken += 1
        at += taken + 1


def show_theory(found: dict[str, list[Theory]]) -> None:
    """Print the comparison of ways to verify."""
    columns = ("positions", "accepted", "p(d)", "sum pq", "1 - TV", "gain", "sigma")
    head = "".join(f"{name:>{8 if name == 'sigma' else 10}}" for name in columns)
    print(
        f"\nT={TEMPERATURE:g}, where drafts before were right, float64: accepted by {VERIFIER}, "
        "its expectation p(d);\nexpected with a draft that is drawn, sum pq; of rejection "
        "sampling, 1 - TV, its gain over sum pq; accepted - p(d) in sigma"
    )
    print(f"{'first draft':12}{head}")
    depths = [Theory() for _ in next(iter(found.values()))]
    for group, each in found.items():
        print(f"{group:12}{each[0]}")
        for whole, part in zip(depths, each, strict=True):
            whole.join(part)
    for depth, each in enumerate(depths):
        print(f"{f'all, depth {depth}':12}{each}")
    for name in ("compared", "sampled", "rejection"):
        rates = np.cumprod([getattr(each, name) / each.positions for each in depths])
        print(f"tokens per step by {name:10} {1 + rates.sum():.3f}")


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="?", type=int, default=TEXTS, help="of each language, kind")
    most = parser.parse_args().texts
    start = time.perf_counter()
    engines: dict[int, Engine] = {}
    for drafts in LEAST:
        say(f"compiling with {drafts} drafts")
        engines[drafts] = ascendfx.compile(
            ascendfx.bundled_model(), dtype="float32", draft_tokens=drafts
        )
    say("")
    golden_figures(engines)
    texts = heldout(most)
    runs = {
        (temperature, drafts): run(engine, texts, temperature, f"T={temperature:g}, k={drafts}")
        for temperature in (0.0, TEMPERATURE)
        for drafts, engine in engines.items()
    }
    show_runs(runs, texts)
    most_drafts = max(LEAST)
    ends = sorted(engines[most_drafts].config.end_tokens)
    reference = ReferenceDraft.of(ascendfx.bundled_model())
    show_theory(theory(reference, texts, runs[TEMPERATURE, most_drafts], most_drafts, ends))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
