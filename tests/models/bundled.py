"""The golden generations and held-out texts that come with the bundled model."""

import json
from dataclasses import dataclass

from tokenizers import Tokenizer

from ascendfx import bundled_model


@dataclass(frozen=True, slots=True)
class Golden:
    """A prompt and the 64 tokens that transformers, eager, float32, appends to it.

    Attributes:
        prompt: Text.
        prompt_ids: Its tokens.
        output_ids: The 64 tokens, end tokens suppressed.
    """

    prompt: str
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]


def golden_generations() -> tuple[Golden, ...]:
    text = (bundled_model() / "golden_generations.json").read_text(encoding="utf-8")
    return tuple(
        Golden(item["prompt"], tuple(item["prompt_ids"]), tuple(item["output_ids"]))
        for item in json.loads(text)["items"]
    )


def heldout_tokens(per_language: int, length: int) -> dict[str, list[tuple[int, ...]]]:
    """Return the first ``length`` tokens of the first texts of each language, by language."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    path = bundled_model() / "texts" / "heldout.jsonl"
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        ids = tuple(tokenizer.encode(row["text"]).ids[:length])
        kept = found.setdefault(row["language"], [])
        if len(kept) < per_language and len(ids) == length:
            kept.append(ids)
    return {language: texts for language, texts in sorted(found.items()) if texts}
