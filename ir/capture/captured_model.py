"""What a capture yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What later steps need to know about a model besides its graph.

    Attributes:
        name: Class of the model, for reports.
        dtype: Element format of its hidden states.
        vocabulary: Number of token ids; 0 if it is not known now.
        max_positions: Longest sequence the model was made for; 0 if it does not say.
        end_ids: Token ids that end a generation; empty if the model names none.
        directory: Where it was read from; None for a module.
        config: The model's configuration as plain data; empty if it has none.
    """

    name: str
    dtype: DType
    vocabulary: int
    max_positions: int = 0
    end_ids: tuple[int, ...] = ()
    directory: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def tokenizer(self) -> Path | None:
        """The tokenizer file beside the model, if there is one."""
        path = self.directory / "tokenizer.json" if self.directory else None
        return path if path and path.is_file() else None


@dataclass(frozen=True, slots=True)
class CapturedModel:
    """A model as a program.

    Attributes:
        program: Entry ``token_ids : i64[batch, tokens]`` to logits ``[batch, tokens, vocab]``.
        source: The tensors that its parameters name.
        facts: What else is known of the model.
        remarks: What the capture could not do as well as usual, for the report.
        drafts: A program per draft layer: entry ``draft`` from ``token_ids`` and hidden states
            ``hidden [batch, tokens, H]`` to logits, the hidden state behind the layer's last norm,
            and the one before it. Its parameters are in ``source``, too.
    """

    program: Program
    source: TensorSource
    facts: ModelFacts
    remarks: tuple[str, ...] = ()
    drafts: tuple[Program, ...] = ()
