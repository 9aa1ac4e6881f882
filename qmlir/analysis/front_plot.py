"""Draws points by two objectives, and the line along those that no other is better than, as SVG.

Pictures of documents and command lines are plain SVG: bokeh, which draws the plots of `qmlir report`, needs a browser
to write a file that shows without its script. The same points give the same bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 76, 200, 44, 56
INK, GRID, PAPER = "#1f2937", "#d1d5db", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8f98")
"""Colours that all readers can tell apart."""

LINEAR = 8
"""An axis whose largest value is more than so many times its least goes by powers."""

NAMED = 14
"""The most points of the front that are named in the picture; all have their names where a mouse rests."""


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    said  what it is, with its unit
    sign  1 if less is better, −1 if more is
    """

    said: str
    sign: int


@dataclass(frozen=True)
class Dot:
    """A point of the picture.

    x, y    its place
    series  what has one colour, such as a policy
    name    what it is
    filled  whether it is on the front of all objectives
    """

    x: float
    y: float
    series: str
    name: str
    filled: bool


def front_svg(title: str, dots: Sequence[Dot], across: Axis, upwards: Axis) -> str:
    """Returns a picture of points; a line joins those that no other point is better than by the two axes."""
    dots = [dot for dot in dots if math.isfinite(dot.x) and math.isfinite(dot.y)]
    x = _Scale([dot.x for dot in dots], LEFT, WIDTH - RIGHT)
    y = _Scale([dot.y for dot in dots], HEIGHT - BOTTOM, TOP)
    series = list(dict.fromkeys(dot.series for dot in dots))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
        f'<text x="{LEFT}" y="24" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for value in x.ticks:
        at = x.at(value)
        lines.append(f'<path d="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke="{GRID}"/>')
        lines.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_number(value)}</text>')
    for value in y.ticks:
        at = y.at(value)
        lines.append(f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{_number(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) // 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across.said)}</text>')
    half = (TOP + HEIGHT - BOTTOM) // 2
    lines.append(
        f'<text transform="translate(18 {half}) rotate(-90)" text-anchor="middle">{escape(upwards.said)}</text>'
    )
    best = best_of(dots, across, upwards)
    if len(best) > 1:
        path = "L".join(f"{x.at(dot.x)} {y.at(dot.y)}" for dot in best)
        lines.append(f'<path d="M{path}" fill="none" stroke="{INK}" stroke-dasharray="4 3"/>')
    for dot in dots:
        colour = COLOURS[series.index(dot.series) % len(COLOURS)]
        fill = colour if dot.filled else PAPER
        said = escape(f"{dot.series}, {dot.name}: {_number(dot.x)}, {_number(dot.y)}")
        place = f'cx="{x.at(dot.x)}" cy="{y.at(dot.y)}"'
        lines.append(
            f'<circle {place} r="5" fill="{fill}" stroke="{colour}" stroke-width="1.5"><title>{said}</title></circle>'
        )
    for dot in best[:NAMED]:
        lines.append(f'<text x="{x.at(dot.x) + 8}" y="{y.at(dot.y) - 7}" font-size="10">{escape(dot.name)}</text>')
    for number, name in enumerate(series):
        at, colour = TOP + 20 * number + 6, COLOURS[number % len(COLOURS)]
        lines.append(f'<circle cx="{WIDTH - RIGHT + 22}" cy="{at}" r="5" fill="{colour}"/>')
        lines.append(f'<text x="{WIDTH - RIGHT + 34}" y="{at + 4}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def best_of(dots: Sequence[Dot], across: Axis, upwards: Axis) -> list[Dot]:
    """Returns the points that no other is better than by two axes, from the best by the first axis on."""
    found: list[Dot] = []
    for dot in sorted(dots, key=lambda d: (across.sign * d.x, upwards.sign * d.y)):
        if not found or upwards.sign * dot.y < upwards.sign * found[-1].y:
            found.append(dot)
    return found


class _Scale:
    """Maps values to places along an axis, evenly or by powers of ten.

    ticks  the values of the grid
    """

    def __init__(self, values: Sequence[float], start: int, end: int):
        low, high = min(values, default=0.0), max(values, default=1.0)
        self._start, self._end = start, end
        self._powers = low > 0 and high / low > LINEAR
        if self._powers:
            self._low, self._high = math.log10(low) - 0.05, math.log10(high) + 0.05
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            marks = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            self.ticks = [mark for mark in marks if self._low <= math.log10(mark) <= self._high]
        else:
            room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
            self._low, self._high = low - room, high + room
            step = _step(self._high - self._low)
            first, last = math.ceil(self._low / step), math.floor(self._high / step)
            self.ticks = [number * step for number in range(first, last + 1)]

    def at(self, value: float) -> float:
        """Returns the place of a value, with a tenth of a pixel."""
        share = ((math.log10(value) if self._powers else value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)


def _step(span: float) -> float:
    """The step of a grid of about six lines: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(span / 6))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= span / 6)


def _number(value: float) -> str:
    """A number with a unit's prefix, as short as it can be."""
    for size, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{prefix}"
    return f"{value:.4g}"
