"""Tensors of a checkpoint that no parameter is made of: draft layers are left out, others refused.

A draft layer (DeepSeek-V3 technical report, section 2.2) stands behind the layers of the model. It
is known by what only it has, not by its number alone: else the last layers of a model whose
configuration names too few would be taken for draft layers, and nobody would run them.
"""

from collections.abc import Collection, Iterable, Mapping

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.block_float8 import SCALE_SUFFIX
from ascendfx.runtime.checkpoint.checkpoint_source import CheckpointSource
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor

_ONLY_DRAFTS_HAVE = ("eh_proj.weight", "enorm.weight", "hnorm.weight")
"""What joins the hidden state of a token with the embedding of the next one."""


def refuse_extra(
    source: CheckpointSource,
    stored: Mapping[str, StoredTensor],
    allowed: Collection[str],
    announced: Collection[str],
) -> tuple[str, ...]:
    """Return a remark about layers that are left out; raise for any other tensor nobody reads.

    Args:
        source: What the model's parameters are made of.
        stored: The tensors of the files.
        allowed: Parameters, their other names, and endings of buffers that are computed.
        announced: Numbers of the layers that the configuration calls draft layers and that are not
            captured.

    Raises:
        GraphError: A tensor belongs to no parameter and to no draft layer.
    """
    used = {
        part
        for key in allowed
        if key in source.recipes
        for keys in source.recipes[key].parts
        for part in keys
    }
    extra = [
        key
        for key in stored
        if key not in used and not _is_scale(key, stored) and not _allowed(key, allowed)
    ]
    drafts = _draft_paths(stored, announced)
    unknown = [key for key in extra if not key.startswith(drafts)]
    if unknown:
        raise GraphError(
            "extra-tensor",
            f"tensor `{unknown[0]}` of {stored[unknown[0]].file} belongs to no parameter",
            notes=_notes(unknown, announced),
            hint="config.json and the weights belong to different models",
        )
    return (f"{len(extra)} tensors of draft layers are not captured",) if extra else ()


def _draft_paths(stored: Mapping[str, StoredTensor], announced: Collection[str]) -> tuple[str, ...]:
    """Return the paths of the announced layers that have the parts of a draft layer."""
    joins = _ONLY_DRAFTS_HAVE[0]
    paths = {key.removesuffix(joins) for key in stored if key.endswith(f".{joins}")}
    return tuple(
        path
        for path in sorted(paths)
        if path.rstrip(".").rpartition(".")[2] in announced
        and all(path + part in stored for part in _ONLY_DRAFTS_HAVE)
    )


def _notes(unknown: Collection[str], announced: Collection[str]) -> tuple[str, ...]:
    numbers = [part for key in unknown for part in key.split(".") if part in announced]
    called = (
        f"config.json calls layer {numbers[0]} a draft layer, which it is not: it lacks "
        f"{' or '.join(f'`{part}`' for part in _ONLY_DRAFTS_HAVE)}; `num_hidden_layers` may be "
        "too small"
        if numbers
        else ""
    )
    more = f"{len(unknown)} tensors are not used" if len(unknown) > 1 else ""
    return tuple(filter(None, (more, called)))


def _is_scale(key: str, stored: Mapping[str, StoredTensor]) -> bool:
    """Whether a tensor holds the block scales of another one, with which it is judged."""
    return key.endswith(SCALE_SUFFIX) and key.removesuffix(SCALE_SUFFIX) in stored


def _allowed(key: str, allowed: Iterable[str]) -> bool:
    """Whether a tensor is another name of a parameter, or a buffer that is computed."""
    return key in allowed or any(e.startswith(".") and key.endswith(e) for e in allowed)
