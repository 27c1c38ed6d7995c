"""The tensors of a Hugging Face directory, and its JSON files."""

import json
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.present_file import is_present
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor, read_header

MODEL = "model"
"""How the names of Hugging Face's weight files begin."""
_TENSOR_FILES = (".bin", ".pt", ".pth", ".safetensors")
CONFIG = "config.json"
SHARED = "shared"
"""In the metadata of an index: which tensors are not in the files, and what each is equal to."""


def read_json(file: Path) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        GraphError: The file does not hold one.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(file, f"is no JSON: {error}") from error
    except OSError as error:
        raise GraphError(
            "damaged-file",
            f"{file} cannot be read: {error.strerror}",
            hint="check the permissions of the file, and that the disk is there",
        ) from error
    if not isinstance(found, dict):
        raise _damaged(file, "does not hold a JSON object")
    return found


def _damaged(file: Path, what: str) -> GraphError:
    return GraphError("damaged-file", f"{file} {what}", hint="download the file again")


def read_config(directory: Path) -> dict[str, Any]:
    """Return ``config.json``.

    Raises:
        GraphError: The directory or the file does not exist, or is no JSON.
    """
    if not directory.is_dir():
        raise GraphError(
            "no-model",
            f"there is no directory {directory}",
            hint="give the path of a directory in the Hugging Face layout, already downloaded",
        )
    file = directory / CONFIG
    if not is_present(file):
        raise GraphError(
            "no-model",
            f"{directory} has no {CONFIG}",
            hint="a directory in the Hugging Face layout has config.json and *.safetensors",
        )
    return read_json(file)


def stored_tensors(directory: Path, stem: str = MODEL) -> dict[str, StoredTensor]:
    """Return where each tensor of a directory is; only headers are read.

    With the usual stem, weights are `model.safetensors`, else the files that the index names, else
    all that are called `model*.safetensors`: a folder may hold other tensors, such as recorded
    logits.
    An index says of which file a tensor is taken. What its files hold beside that is returned, too:
    nobody may leave it out unsaid. It may also name tensors that equal another one and were not
    written twice (``shared`` of its metadata).

    Raises:
        GraphError: There are no weights, a file is missing or damaged, or two files hold a tensor
            and no index says which one counts.
    """
    single = directory / f"{stem}.safetensors"
    if is_present(single):
        return read_header(single)
    index = directory / index_name(stem)
    if is_present(index):
        return _indexed(directory, index)
    files = sorted(directory.glob(f"{stem}*.safetensors"))
    if not files:
        other = sorted(p.name for p in directory.iterdir() if p.suffix in _TENSOR_FILES)
        pickled = any(not name.endswith(".safetensors") for name in other)
        raise GraphError(
            "no-weights",
            f"{directory} has no {single.name}, and no {index.name}",
            notes=(f"it has {', '.join(other)}",) if other else (),
            hint="convert the weights with transformers' save_pretrained"
            if pickled
            else "download the weights of the model; files of other names are not read",
        )
    found: dict[str, StoredTensor] = {}
    for file in files:
        for key, tensor in read_header(file).items():
            if key in found:
                raise GraphError(
                    "duplicate-tensor",
                    f"tensor `{key}` is in {found[key].file} and in {file}, and no {index.name} "
                    "says which one counts",
                    hint="keep the files of one model, or add the index",
                )
            found[key] = tensor
    return found


def index_name(stem: str) -> str:
    """Return the name of the file that says in which file a tensor is."""
    return f"{stem}.safetensors.index.json"


def _weight_map(index: Path, content: dict[str, Any]) -> dict[str, str]:
    places: Any = content.get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and name.isprintable() for name in places.values()
    ):
        raise GraphError(
            "damaged-file",
            f"{index} has no `weight_map` from tensors to files",
            hint="download the file again",
        )
    outside = next((name for name in places.values() if Path(name).name != name), None)
    if outside is not None:
        raise _damaged(index, f"names {outside}, which is no name of a file beside it")
    return places


def _indexed(directory: Path, index: Path) -> dict[str, StoredTensor]:
    content = read_json(index)
    places = _weight_map(index, content)
    headers: dict[str, dict[str, StoredTensor]] = {}
    for name in sorted(set(places.values())):
        file = directory / name
        if not is_present(file):
            raise GraphError(
                "no-weights",
                f"{index.name} names {name}, which is not in {directory}",
                hint="download the missing file",
            )
        headers[name] = read_header(file)
    missing = [key for key, name in places.items() if key not in headers[name]]
    if missing:
        raise GraphError(
            "missing-tensor",
            f"tensor `{missing[0]}` is not in {directory / places[missing[0]]}, where "
            f"{index.name} says it is",
            hint="download the file again",
        )
    found = {key: headers[name][key] for key, name in places.items()}
    for header in headers.values():
        for key, tensor in header.items():
            found.setdefault(key, tensor)
    return found | _shared(index, content, found)


def _shared(
    index: Path, content: dict[str, Any], found: dict[str, StoredTensor]
) -> dict[str, StoredTensor]:
    """Return what the index says to be equal to another tensor."""
    metadata: Any = content.get("metadata")
    names: Any = metadata.get(SHARED, {}) if isinstance(metadata, dict) else {}
    if not isinstance(names, dict):
        raise _damaged(index, f"has `{SHARED}` that is no JSON object")
    for name, first in names.items():
        if name in found or first not in found:
            raise _damaged(index, f"calls `{name}` equal to `{first}`: both or none are in files")
    return {name: found[first] for name, first in names.items()}
