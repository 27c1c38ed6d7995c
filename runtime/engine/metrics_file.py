"""What an engine has done, as a small file: for reports, and to compare runs."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.json_file import write_json
from ascendfx.runtime.engine.metrics import Acceptance, Metrics
from ascendfx.runtime.replaced_file import place_of

FORMAT = 3
_KIND = "ascendfx-metrics"
_TOTALS = ("steps", "request_steps", "tokens")
_BY_POSITION = ("proposed", "accepted")
_OF_REQUESTS = ("requests", "ended")
_COUNTS = tuple(field.name for field in fields(Acceptance))


_AGAIN = "write it with `ascendfx run --metrics FILE` or `Engine.save_metrics`"


def write_metrics(metrics: Metrics, path: Path, *, model: str = "") -> None:
    """Write the figures; an older file is replaced when the new one is complete.

    Args:
        metrics: The figures.
        path: The file; its folder is made.
        model: What `model_hash` says of the model; empty: not known.

    Raises:
        GraphError: The place cannot be written.
    """
    data: dict[str, Any] = {"kind": _KIND, "format": FORMAT, "warnings": list(metrics.warnings)}
    data["model"] = model
    data |= {name: getattr(metrics, name) for name in _TOTALS}
    data |= {name: list(getattr(metrics, name)) for name in _BY_POSITION}
    for name in _OF_REQUESTS:
        each: Mapping[int, Acceptance] = getattr(metrics, name)
        data[name] = {str(request): asdict(each[request]) for request in each}
    place = place_of(path)
    with writing(path):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, data)


def read_metrics(path: Path, *, programs: str = "") -> Metrics:
    """Return the figures of a file.

    Args:
        path: The file.
        programs: What `programs_hash` says of the model that they should be of; empty: any.

    Raises:
        GraphError: It is missing, no file of figures, of another version or model, or damaged.
    """
    data = _json(path)
    try:
        found, model = _metrics(data), str(data["model"])
    except (KeyError, TypeError, ValueError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise GraphError(
            "damaged-metrics", f"{path} was edited or is damaged: {said}", hint=_AGAIN
        ) from error
    if programs and model and not model.startswith(programs):
        raise GraphError(
            "other-metrics",
            f"{path} holds figures of another model, element format, strategy or number of drafts",
            hint="compile what ran with `--dump-dir DIR`, and report that dump",
        )
    return found


def _json(path: Path) -> Mapping[str, Any]:
    import json  # noqa: PLC0415  # only reports read

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _no_metrics(f"there is no file {path}") from error
    except OSError as error:
        raise _no_metrics(f"{path} cannot be read: {error.strerror}") from error
    except (RecursionError, ValueError) as error:
        raise _no_metrics(f"{path} is no JSON: {error}") from error
    kind = cast("dict[str, Any]", data).get("kind") if isinstance(data, dict) else None
    if kind != _KIND:
        raise _no_metrics(f"{path} is JSON, but does not hold the figures of an engine")
    found = cast("dict[str, Any]", data)
    if found.get("format") != FORMAT:
        raise GraphError(
            "metrics-version",
            f"{path} has format {found.get('format')}, this version reads {FORMAT}",
            hint=_AGAIN,
        )
    return found


def _no_metrics(reason: str) -> GraphError:
    return GraphError("not-metrics", reason, hint=_AGAIN)


def _metrics(data: Mapping[str, Any]) -> Metrics:
    totals = {name: _count(data[name], name) for name in _TOTALS}
    proposed, accepted = (
        tuple(_count(each, name) for each in _list(data[name], name)) for name in _BY_POSITION
    )
    if len(proposed) != len(accepted):
        raise ValueError("proposed and accepted have different numbers of positions")
    requests, ended = (_requests(data[name], name) for name in _OF_REQUESTS)
    warnings = tuple(map(str, _list(data["warnings"], "warnings")))
    return Metrics(
        **totals,
        proposed=proposed,
        accepted=accepted,
        requests=requests,
        ended=ended,
        warnings=warnings,
    )


def _requests(value: Any, name: str) -> dict[int, Acceptance]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is no JSON object")
    found = cast("dict[str, Any]", value)
    return {
        int(request): Acceptance(**{each: _count(counts[each], each) for each in _COUNTS})
        for request, counts in found.items()
    }


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is no list")
    return cast("list[Any]", value)


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is no count: {value!r}")
    return value
