"""What an engine has done, as a small file: for reports, and to compare runs."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.json_file import write_json
from ascendfx.runtime.engine.metrics import Acceptance, Metrics

FORMAT = 1
_KIND = "ascendfx-metrics"
_TOTALS = ("steps", "request_steps", "tokens")
_BY_POSITION = ("proposed", "accepted")
_OF_REQUESTS = ("requests", "ended")
_COUNTS = tuple(field.name for field in fields(Acceptance))


def write_metrics(metrics: Metrics, path: Path) -> None:
    """Write the figures; an older file is replaced when the new one is complete.

    Raises:
        GraphError: The place cannot be written.
    """
    data: dict[str, Any] = {"kind": _KIND, "format": FORMAT, "warnings": list(metrics.warnings)}
    data |= {name: getattr(metrics, name) for name in _TOTALS}
    data |= {name: list(getattr(metrics, name)) for name in _BY_POSITION}
    for name in _OF_REQUESTS:
        each: Mapping[int, Acceptance] = getattr(metrics, name)
        data[name] = {str(request): asdict(each[request]) for request in each}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, data)


def read_metrics(path: Path) -> Metrics:
    """Return the figures of a file.

    Raises:
        GraphError: It is missing, or not what `write_metrics` of this version writes.
    """
    try:
        return _metrics(_json(path))
    except (KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise GraphError(
            "damaged-metrics",
            f"{path} does not hold the figures of an engine: {said}",
            hint="write it with `ascendfx run --metrics FILE` or `Engine.save_metrics`",
        ) from error


def _json(path: Path) -> Mapping[str, Any]:
    import json  # noqa: PLC0415  # only reports read

    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise TypeError("it is no JSON object")
    found = cast("dict[str, Any]", data)
    if (found.get("kind"), found.get("format")) != (_KIND, FORMAT):
        raise ValueError(f"it is of kind {found.get('kind')}, format {found.get('format')}")
    return found


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
