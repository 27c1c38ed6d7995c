"""One row of a set, as a task reads it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.language_model import Ids, ModelCard

Row = Mapping[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Part:
    """A text to be scored, or the prompt of an answer.

    Attributes:
        ids: All tokens.
        start: The first one that counts; those before it are read only.
        characters: What is counted, in characters.
    """

    ids: Ids
    start: int = 1
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A question to the model, or a text.

    Attributes:
        task: Name of the task.
        place: Where it stands.
        language: As its row has it; ``?`` if it has none.
        kind: As its row has it.
        parts: The text; of a choice one for each; of an answer the prompt.
        right: Number of the right choice.
        texts: Right answers; or the prompt, and the tests that code must pass.
        stops: Texts that end an answer.
    """

    task: str
    place: Location
    language: str
    kind: str
    parts: tuple[Part, ...]
    right: int = 0
    texts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What it costs to read it."""
        return sum(len(part.ids) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reader:
    """What tasks need to read rows.

    Attributes:
        encode: Characters to token ids.
        card: The model.
        window: Texts are cut into so many tokens.
        new_tokens: The longest answer.
    """

    encode: Callable[[str], Sequence[int]]
    card: ModelCard
    window: int
    new_tokens: int

    def ids(self, text: str, place: Location) -> Ids:
        """Return the tokens of a text.

        Raises:
            GraphError: `bad-samples`: it has none.
        """
        found = tuple(self.encode(text))
        if not found:
            raise wrong("the text has no tokens", "write something, or leave the row out", place)
        return found

    def check_length(self, tokens: int, place: Location, answer: int = 0) -> None:
        """Check that a text, and an answer behind it, can be read at once.

        Raises:
            GraphError: `sample-too-long`.
        """
        if tokens + answer > self.card.max_tokens:
            behind = f", and {answer} for the answer" if answer else ""
            raise GraphError(
                "sample-too-long",
                f"the row has {tokens:,} tokens{behind}; {self.card.name} reads "
                f"{self.card.max_tokens:,}",
                place,
                hint="shorten it or leave it out; only rows of `perplexity` are cut into windows",
            )


def wrong(reason: str, hint: str, place: Location) -> GraphError:
    """Return the error for a row."""
    return GraphError("bad-samples", reason, place, hint=hint)


def text_of(row: Row, names: Sequence[str], place: Location) -> str:
    """Return a text under the first of some names that a row has.

    Raises:
        GraphError: `bad-samples`: there is none, or it is no text.
    """
    name = next((each for each in names if each in row), None)
    if name is None:
        known = ", ".join(f"`{each}`" for each in list(row)[:6]) or "nothing"
        wanted = " nor ".join(f"`{each}`" for each in names)
        reason = f"there is no {wanted}" if len(names) == 1 else f"there is neither {wanted}"
        raise wrong(f"{reason}; the row has {known}", f"write `{names[0]}`", place)
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise wrong(f"`{name}` is {value!r:.60}, no text", f"write a text as `{name}`", place)
    return value


def texts_of(row: Row, name: str, place: Location, *, least: int = 1) -> tuple[str, ...]:
    """Return a list of texts; a text alone is a list of one.

    Raises:
        GraphError: `bad-samples`: there is none, or something else.
    """
    if name not in row:
        text_of(row, (name,), place)  # says so
    value = row[name]
    found: Any = [value] if isinstance(value, str) else value
    if (
        not isinstance(found, list)
        or len(found) < least  # pyright: ignore[reportUnknownArgumentType]
        or not all(isinstance(each, str) and each for each in found)  # pyright: ignore[reportUnknownVariableType]
    ):
        what = "a text, or a list of texts" if least == 1 else f"a list of at least {least} texts"
        raise wrong(f"`{name}` is {value!r:.60}", f"write {what}", place)
    return tuple(found)  # pyright: ignore[reportUnknownArgumentType]


def stops_of(row: Row, place: Location, usual: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts that end an answer."""
    return texts_of(row, "stop", place) if "stop" in row else usual
