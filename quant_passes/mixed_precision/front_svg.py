"""A front as a picture: costs to the right, scores upwards, recipes as they are beside it."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

from ascendfx.quant_passes.mixed_precision.pareto_front import FrontPoint

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 150, 40, 60
_TICKS = 5


def front_svg(
    points: Sequence[FrontPoint],
    uniform: Mapping[str, tuple[float, float]],
    *,
    cost: str,
    score: str,
) -> str:
    """Return an SVG file; scores on a logarithmic scale, those of 0 at its lower end.

    Args:
        points: The front, at least one point.
        uniform: Cost and score of recipes that are followed everywhere, by name.
        cost: Name of the costs, with their unit.
        score: Name of the scores.
    """
    pairs = [*((each.cost, each.score) for each in points), *uniform.values()]
    positive = [value for _, value in pairs if value > 0] or [1.0]
    low, high = floor(log10(min(positive))), floor(log10(max(positive))) + 1
    left, right = min(x for x, _ in pairs), max(x for x, _ in pairs)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / ((right - left) or 1)
        up = (log10(y) - low) / (high - low) if y > 0 else 0.0
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    drawn = [_text(_LEFT, 22, f"{score} over {cost}", weight="bold")]
    for power in range(low, high + 1):
        _, y = place(left, 10.0**power)
        drawn.append(_line(_LEFT, y, _WIDTH - _RIGHT, y))
        drawn.append(_text(_LEFT - 8, y + 4, f"1e{power}", anchor="end"))
    for step in range(_TICKS):
        value = left + (right - left) * step / (_TICKS - 1)
        x, y = place(value, 0)
        drawn.append(_line(x, _TOP, x, y))
        drawn.append(_text(x, y + 18, _short(value), anchor="middle"))
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, cost, anchor="middle"))
    path = " ".join("{:.1f},{:.1f}".format(*place(each.cost, each.score)) for each in points)
    drawn.append(f'<polyline points="{path}" fill="none" stroke="#1f5fbf" stroke-width="1.5"/>')
    drawn += (_dot(*place(each.cost, each.score), "#1f5fbf", 3, _told(each)) for each in points)
    for name, (x, y) in uniform.items():
        at = place(x, y)
        drawn.append(_dot(*at, "#c0392b", 4.5, f"{name}: {_short(x)}, {y:.3g}"))
        drawn.append(_text(at[0] + 8, at[1] + 4, name))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">'
    )
    back = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    return "\n".join((head, back, *drawn, "</svg>")) + "\n"


def _told(point: FrontPoint) -> str:
    return f"{_short(point.cost)}, {point.score:.3g}"


def _short(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _dot(x: float, y: float, colour: str, size: float, title: str) -> str:
    inside = f"<title>{escape(title)}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{colour}">{inside}</circle>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
