"""How often drafts of the bundled model are accepted by each way to verify them, and why.

    python tests/benchmarks/acceptance.py [TEXTS]        default: 2 of each language and kind

First the golden prompts, greedy, with chains of drafts, with trees, and with as many drafts as pay
for each request (`ExpectedGain`). Then held-out texts, which
the model goes on with after their first tokens, greedy and at temperature 0.7, verified in every
way with one to three drafts: by language and kind, and in all beside what theory expects of the
very logits and drafts of each step (`watched_steps.py`). All is emulated; times are of this
machine.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))

import ascendfx
from ascendfx import Engine, ExpectedGain, Request, Sampling
from ascendfx.runtime.engine.verification import LOSSLESS, NAMES
from tests.benchmarks.parts.watched_steps import Taken, WatchedSteps
from tests.models.bundled import golden_generations

LEAST = {1: 1.65, 2: 2.1, 3: 2.4}
"""Tokens per step on the golden prompts; a loop over transformers reached 1.72, 2.20, 2.52."""
TREES = ((2,), (4,), (2, 1), (2, 2), (4, 2), (3, 2, 1))
COSTS = (0.1, 0.3, 0.5)
"""Time of a draft, of a step without drafts."""
PROMPT, NEW = 40, 40
TEMPERATURES = (0.0, 0.7)
TEXTS = 2
SIGMAS = 5.0


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
class Run:
    """What one engine did with all texts.

    Attributes:
        groups: By language and kind.
        acceptance: Of each draft position.
        seconds: Wall-clock time.
    """

    groups: dict[str, Taken] = field(default_factory=dict)
    acceptance: tuple[float, ...] = ()
    seconds: float = 0.0

    @property
    def whole(self) -> Taken:
        """Of all groups."""
        found = Taken()
        for each in self.groups.values():
            found.add(each)
        return found


Runs = dict[tuple[float, str, int], Run]
"""By temperature, verification and number of drafts."""


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


def tree_figures(chains: dict[int, Engine]) -> None:
    """Print the same of trees; each gives more than the chain of its depth."""
    golden = golden_generations()
    print(f"\n{'tree':<12}{'rows':>5}{'tokens per step':>17}{'chain':>8}  accepted by depth")
    for branches in TREES:
        say(f"compiling a tree of {branches}")
        engine = ascendfx.compile(ascendfx.bundled_model(), dtype="float32", draft_tree=branches)
        say("")
        results = engine.generate(
            [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
        )
        metrics, chain = engine.metrics, chains[len(branches)].metrics.tokens_per_step
        rates = ", ".join(f"{rate:.3f}" for rate in metrics.acceptance)
        name = ",".join(map(str, branches))
        print(
            f"{name:<12}{1 + sum(branches):5}{metrics.tokens_per_step:17.3f}{chain:8.3f}  {rates}"
        )
        assert [each.token_ids for each in results] == [each.output_ids for each in golden]
        assert metrics.tokens_per_step > chain


def adaptive_figures(engines: dict[int, Engine]) -> None:
    """Print the tokens of a step and what drafts cost, with all drafts and with those that pay.

    Nothing is claimed of it: what pays depends on the cost of a draft, which is that of a machine.
    """
    golden = golden_generations()
    print("\nas many drafts as pay at a cost, of a step without drafts; drafts verified per token")
    print(f"{'k':>2}{'cost':>8}{'tokens per step':>17}{'drafts per token':>18}")
    for drafts, engine in engines.items():
        for cost in (None, *COSTS):
            before = engine.metrics
            engine.draft_policy = None if cost is None else ExpectedGain(cost=cost)
            results = engine.generate(
                [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
            )
            after = engine.metrics
            tokens = after.tokens - before.tokens
            per_step = tokens / (after.request_steps - before.request_steps)
            verified = (sum(after.proposed) - sum(before.proposed)) / tokens
            name = "all" if cost is None else f"{cost:g}"
            print(f"{drafts:2}{name:>8}{per_step:17.3f}{verified:18.3f}")
            assert [each.token_ids for each in results] == [each.output_ids for each in golden]
        engine.draft_policy = None


def run(engine: Engine, texts: Sequence[Text], sampling: Sampling, what: str) -> Run:
    """Let an engine go on with all texts."""
    before, start = engine.metrics, time.perf_counter()
    watched = engine.executor
    assert isinstance(watched, WatchedSteps)
    watched.found = {}
    options = {"temperature": sampling.temperature, "verification": sampling.verification}
    engine.start(
        [
            Request(
                prompt=text.prompt,
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                sampling=Sampling(seed=seed, **options),
            )
            for seed, text in enumerate(texts)
        ]
    )
    ended = 0
    while engine.busy:
        engine.step(8)
        ended += sum(bool(update.finish_reason) for update in engine.poll())
        say(f"{what}: {ended} of {len(texts)} texts")
    say("")
    after = engine.metrics
    pairs = zip(
        zip(before.accepted, before.proposed, strict=True),
        zip(after.accepted, after.proposed, strict=True),
        strict=True,
    )
    done = Run(
        acceptance=tuple((b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairs),
        seconds=time.perf_counter() - start,
    )
    for seed, each in watched.found.items():
        done.groups.setdefault(texts[seed].group, Taken()).add(each)
    return done


def show_groups(runs: Runs, texts: Sequence[Text], temperature: float) -> None:
    """Print tokens per step of each group."""
    print(
        f"\nT={temperature:g}: tokens per step, with {', '.join(map(str, LEAST))} drafts; "
        f"{NEW} tokens after the first {PROMPT} of {len(texts)} held-out texts"
    )
    print(f"{'':12}{'texts':>6}" + "".join(f"{name:>18}" for name in NAMES))
    rows = {
        group: sum(t.group == group for t in texts) for group in sorted({t.group for t in texts})
    }
    for group, number in [*rows.items(), ("all", len(texts))]:
        figures = ""
        for name in NAMES:
            for drafts in LEAST:
                each = runs[temperature, name, drafts]
                sums = each.whole if group == "all" else each.groups[group]
                figures += f"{1 + sums.taken / sums.steps:6.2f}"
        print(f"{group:12}{number:6}{figures}")


def show_theory(runs: Runs) -> None:
    """Print what was taken beside what should be."""
    print(
        "\nall texts: tokens per step, what is expected of the logits and drafts of each step, the "
        "difference\nand its standard error"
    )
    print(
        f"{'':14}{'k':>3}{'measured':>10}{'expected':>10}{'difference':>12}{'error':>8}"
        "  by position"
    )
    for (temperature, name, drafts), each in runs.items():
        sums = each.whole
        per = sums.steps
        difference, error = (sums.taken - sums.expected) / per, sums.error / per
        rates = ", ".join(f"{rate:.3f}" for rate in each.acceptance)
        print(
            f"T={temperature:<4g}{name:10}{drafts:1}{1 + sums.taken / per:10.3f}"
            f"{1 + sums.expected / per:10.3f}{difference:+12.3f}{error:8.3f}  {rates}; "
            f"{each.seconds:.0f} s"
        )
        assert abs(difference) <= SIGMAS * error + 1e-3, "more than chance"
        if name == "block" and temperature:
            print(
                f"{'':14}{'':3}{'':10}{1 + sums.rejected / per:10.3f}"
                f"{(sums.rejected - sums.expected) / per:+12.3f}{'':8}"
                "  rejection of the same drafts"
            )


def show_gain(runs: Runs, temperature: float) -> None:
    """Print that rejection sampling takes more than comparing, and by how much it should."""
    print(
        f"\nT={temperature:g}: share of drafts taken whose forerunners were, at the positions of "
        "the rejection run, in theory:\n1 - TV = sum min(p, q) by rejection; sum p q by comparing "
        "a drawn draft; p(d) by comparing the likeliest"
    )
    names = ("positions", "1 - TV", "sum p q", "gain", "p(d)", "gain")
    print(f"{'k':>2}" + "".join(f"{name:>11}" for name in names))
    for drafts in LEAST:
        sums = runs[temperature, "rejection", drafts].whole
        overlap, equal, likeliest = (
            value / sums.positions for value in (sums.overlap, sums.equal, sums.likeliest)
        )
        assert overlap >= equal
        print(
            f"{drafts:2}{sums.positions:11}{overlap:11.3f}{equal:11.3f}{overlap - equal:+11.3f}"
            f"{likeliest:11.3f}{overlap - likeliest:+11.3f}"
        )
    print("tokens per step, rejection - exact: measured, expected, difference, standard error")
    for drafts in LEAST:
        both = [runs[temperature, name, drafts].whole for name in ("rejection", "exact")]
        measured, expected = (
            getattr(both[0], name) / both[0].steps - getattr(both[1], name) / both[1].steps
            for name in ("taken", "expected")
        )
        error = sum((each.error / each.steps) ** 2 for each in both) ** 0.5
        print(
            f"{drafts:2}{measured:+11.3f}{expected:+11.3f}{measured - expected:+11.3f}{error:11.3f}"
        )


def main() -> None:
    """Print all."""
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
    tree_figures(engines)
    adaptive_figures(engines)
    for engine in engines.values():
        engine.executor = WatchedSteps(engine.executor)
    texts = heldout(most)
    runs: Runs = {}
    for temperature in TEMPERATURES:
        for name in NAMES:
            for drafts, engine in engines.items():
                sampling = Sampling(temperature=temperature, verification=name)
                what = f"T={temperature:g}, {name}, k={drafts}"
                runs[temperature, name, drafts] = run(engine, texts, sampling, what)
        show_groups(runs, texts, temperature)
    for drafts in LEAST:  # greedy, lossless: one text, one number of steps
        assert len({runs[0.0, name, drafts].whole.taken for name in LOSSLESS}) == 1
    show_theory(runs)
    show_gain(runs, TEMPERATURES[1])
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
