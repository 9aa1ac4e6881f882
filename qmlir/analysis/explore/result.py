"""The rows of a sweep: what each combination costs and reaches, and which of them no other is better than."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qmlir.analysis.explore.measuring import Figures
from qmlir.analysis.explore.sweep import Variant
from qmlir.analysis.front_plot import Axis, Dot, front_svg
from qmlir.devices import Device
from qmlir.display import Rows, Table, counted
from qmlir.errors import OptionError, near_misses
from qmlir.running.files import path_of, write_whole


@dataclass(frozen=True)
class Row:
    """A network, quantized by a policy, on a variant of a device.

    model     the name of the network
    variant   the device
    policy    the name of the policy
    figures   what it costs and reaches; None if the device cannot serve it
    reason    why the device cannot serve it; empty if it can
    error     the class of that error
    front     whether no other row of the network is better in one objective and as good in all others
    """

    model: str
    variant: Variant
    policy: str
    figures: Figures | None
    reason: str = ""
    error: str = ""
    front: bool = False

    @property
    def seconds(self) -> float | None:
        """The time of a call at the device's clock."""
        if self.figures is None or self.variant.device is None:
            return None
        return self.figures.cycles / (self.variant.device.clock * 1e6)

    def value(self, objective: str) -> float | None:
        """Returns the figure of an objective by its name in `OBJECTIVES`; None if it was not measured."""
        return OBJECTIVES[objective].of(self)

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON."""
        own = None if self.figures is None else asdict(self.figures)
        device = self.variant.device
        return {
            "model": self.model,
            "settings": dict(self.variant.settings),
            "policy": self.policy,
            "front": self.front,
            "macs_per_cycle": None if device is None else device.peak_macs,
            "memory_bytes": None if device is None else memory_bytes(device),
            "seconds": self.seconds,
            "figures": own,
            "reason": self.reason or None,
            "error": self.error or None,
        }


def memory_bytes(device: Device) -> int:
    """Returns the bytes of all memories of a device."""
    return sum(memory.bytes for memory in device.memory)


@dataclass(frozen=True)
class Objective:
    """A figure that rows are compared by.

    said     what it is, with its unit
    sign     1 if less is better, −1 if more is
    of       row → the figure; None if it was not measured
    """

    said: str
    sign: int
    of: Callable[[Row], float | None]


def _of_device(of: Callable[[Device], int]) -> Callable[[Row], float | None]:
    return lambda row: None if row.variant.device is None else of(row.variant.device)


def _figure(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row.figures is None else getattr(row.figures, name)


OBJECTIVES: Mapping[str, Objective] = {
    "cycles": Objective("cycles of a call", 1, _figure("cycles")),
    "seconds": Objective("seconds of a call at the device's clock", 1, lambda row: row.seconds),
    "macs": Objective("MACs per cycle of the array", 1, _of_device(lambda device: device.peak_macs)),
    "memories": Objective("bytes of the memories of the device", 1, _of_device(memory_bytes)),
    "weights": Objective("bytes of constants", 1, _figure("weights")),
    "stream": Objective("bytes of commands", 1, _figure("stream")),
    "memory": Objective("bytes of tensors outside the device", 1, _figure("memory")),
    "utilization": Objective("share of the array's products that are used", -1, _figure("utilization")),
    "host": Objective("operations that the host computes", 1, _figure("host")),
    "sqnr": Objective("SQNR of the outputs in dB", -1, _figure("sqnr")),
    "agreement": Objective("percent of the samples with float's first class", -1, _figure("agreement")),
}
"""What rows can be compared by, by name."""

FRONT = ("cycles", "macs", "memories", "sqnr")
"""What rows are compared by unless the user says otherwise: speed, the two large costs of a device, and exactness."""


def objectives_given(given: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of objectives; raises `OptionError` if one does not exist, or if there are none."""
    for name in given:
        if name not in OBJECTIVES:
            raise OptionError("front", f"there is no objective {name}", remedy=near_misses(name, OBJECTIVES))
    if not given:
        raise OptionError("front", "must name objectives", got="none", remedy=f"known: {', '.join(OBJECTIVES)}")
    return tuple(dict.fromkeys(given))


def undominated(rows: Sequence[Row], objectives: Sequence[str]) -> list[bool]:
    """Marks the rows that no other row of their network beats: better in one objective, as good in all others.

    A figure that was not measured counts as the worst; rows that the device cannot serve are never on the front.
    """
    worst = float("inf")
    points: list[tuple[float, ...]] = []
    for row in rows:
        values = [(OBJECTIVES[name].sign, row.value(name)) for name in objectives]
        points.append(tuple(worst if value is None else sign * value for sign, value in values))

    def beaten(i: int) -> bool:
        return any(
            rows[j].figures is not None
            and rows[j].model == rows[i].model
            and points[j] != points[i]
            and all(a <= b for a, b in zip(points[j], points[i], strict=True))
            for j in range(len(rows))
        )

    return [row.figures is not None and not beaten(i) for i, row in enumerate(rows)]


COLUMNS = ("cycles", "weights", "stream", "memory", "utilization", "host", "sqnr", "agreement")
"""The figures of a row, in the order of a table's columns."""


class Explored(Rows[Row]):
    """The rows of a sweep, in the order of models, variants and policies: a list that shows itself as a table.

    device      the name of the device
    objectives  what rows are compared by
    """

    device: str = ""
    objectives: Sequence[str] = FRONT

    @property
    def front(self) -> list[Row]:
        """The rows that no other row of their network is better than."""
        return [row for row in self if row.front]

    def table(self) -> Table:
        headings = ("model", "device", "policy", *COLUMNS, "front")
        rows = [
            (
                row.model,
                row.variant.said,
                row.policy,
                *(row.value(name) for name in COLUMNS),
                row.reason or ("*" if row.front else ""),
            )
            for row in self
        ]
        title = (
            f"{counted(len(self), 'combination')} on {self.device}, {len(self.front)} of them on the front by "
            f"{', '.join(self.objectives)}"
        )
        return Table(title, headings, rows)

    def csv(self) -> str:
        """Returns all rows as CSV: a column for each key of the sweep, and one for each figure."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        keys = list(dict.fromkeys(key for row in self for key in row.variant.settings))
        writer.writerow(("model", *keys, "policy", *OBJECTIVES, "front", "error", "reason"))
        for row in self:
            settings = (row.variant.settings.get(key, "") for key in keys)
            figures = ("" if (value := row.value(name)) is None else value for name in OBJECTIVES)
            writer.writerow((row.model, *settings, row.policy, *figures, int(row.front), row.error, row.reason))
        return text.getvalue()

    def svg(self, across: str = "cycles", upwards: str | None = None) -> str:
        """Returns a picture of the rows that were served, with a line along the best of two objectives.

        Args:
            across: The objective that goes to the right.
            upwards: The objective that goes upwards; by default `sqnr` if it was measured, else `macs`.
        """
        known = any(row.value("sqnr") is not None for row in self)
        x, y = objectives_given((across, upwards or ("sqnr" if known else "macs")))
        series = list(dict.fromkeys((row.model, row.policy) for row in self))
        several = len({model for model, _ in series}) > 1
        dots = [
            Dot(a, b, f"{row.model}, " * several + row.policy, row.variant.said, row.front)
            for row in self
            if (a := row.value(x)) is not None and (b := row.value(y)) is not None and row.figures is not None
        ]
        axes = [Axis(OBJECTIVES[name].said, OBJECTIVES[name].sign) for name in (x, y)]
        return front_svg(f"{self.device}: {', '.join(dict.fromkeys(m for m, _ in series))}", dots, *axes)

    def save_plot(self, path: str | Path, across: str = "cycles", upwards: str | None = None) -> None:
        """Writes `svg` to a file."""
        write_whole(path_of(path), self.svg(across, upwards))

    def as_dict(self) -> dict[str, Any]:
        """Returns the rows as plain data for JSON."""
        return {"device": self.device, "objectives": list(self.objectives), "rows": [row.as_dict() for row in self]}
