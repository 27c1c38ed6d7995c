"""Texts of the command line as token ids of a model directory."""

from collections.abc import Sequence
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.present_file import is_present
from ascendfx.runtime.checkpoint.read_directory import read_config
from ascendfx.runtime.engine.text_codec import TextCodec


def encoded_prompts(model: Path, prompts: Sequence[str], *, instead: str) -> list[list[int]]:
    """Return the ids of each text.

    Args:
        model: A directory in the Hugging Face layout.
        prompts: The texts.
        instead: What to do if the model has no tokenizer.

    Raises:
        GraphError: There is no directory or no tokenizer, or a text has no token.
    """
    if not model.is_dir():
        read_config(model)  # says so
    file = model / "tokenizer.json"
    if not is_present(file):
        raise GraphError(
            "no-tokenizer",
            f"{model} has no tokenizer.json, so that texts cannot be read",
            hint=instead,
        )
    codec = TextCodec(file)
    texts = [codec.encode(prompt) for prompt in prompts]
    for number, ids in enumerate(texts):
        if not ids:
            raise GraphError(
                "empty-prompt",
                f"prompt {number} has no tokens",
                hint="this model has no begin token that an empty text would stand for; "
                "leave the prompt out",
            )
    return texts
