"""Limits of a search: a budget, which is the most a network may cost, or a floor, which is the least it must reach."""

import re
from dataclasses import dataclass
from typing import Any, Protocol

from qmlir.display import bytes_of
from qmlir.errors import OptionError, near_misses

COSTS = {
    "bytes": "bytes of all constants, each element with the bits of its type",
    "stored": "bytes of constants in the machine code for this processor, with its kernels' padding and parameters",
    "macs-bits": "sum over the layers of MACs times bits of the weights times bits of the data",
    "arena": "bytes of scratch memory of the machine code",
    "cycles": "cycles of a call on a device, as its commands predict them",
    "ms": "milliseconds of a call on this processor, measured",
}
"""What a network costs, by name."""

QUALITIES = {
    "sqnr": "SQNR of the logits in dB, without each sample's means",
    "agreement": "percent of the samples with float's first class",
    "top1": "percent of the samples with the right class",
    "metric": "your own score",
}
"""What a network reaches, by name."""

INT8 = "int8"
"""The word for the network of the default options in a limit: `60%` of its cost, `int8-0.5` of its quality."""


class Figures(Protocol):
    """The figures of one network that limits compare."""

    def cost(self, name: str) -> float:
        """Returns a cost by its name in `COSTS`."""
        ...

    def quality(self, name: str) -> float | None:
        """Returns a quality by its name in `QUALITIES`; None if it was not measured."""
        ...


@dataclass(frozen=True)
class Budget:
    """The most that a network may cost.

    cost    a name in `COSTS`
    most    the number, or the share of the cost of the int8 network
    share   whether `most` is a share
    device  the device of `cycles`
    """

    cost: str
    most: float
    share: bool = False
    device: str = ""

    def within(self, reference: Figures) -> float:
        """Returns the most in the unit of the cost."""
        return self.most * reference.cost(self.cost) if self.share else self.most

    def __str__(self) -> str:
        name = f"{self.cost}:{self.device}" if self.device else self.cost
        return f"{name}={100 * self.most:g}%" if self.share else f"{name}={self.most:g}"


NOTHING = "nothing that measures it"


@dataclass(frozen=True)
class Floor:
    """The least that a network must reach.

    quality   a name in `QUALITIES`
    least     the number, or the difference to that of the int8 network
    relative  whether `least` is a difference
    """

    quality: str
    least: float
    relative: bool = False

    def at(self, reference: Figures) -> float:
        """Returns the least in the unit of the quality.

        Raises:
            OptionError: The quality was not measured.
        """
        if (known := reference.quality(self.quality)) is None:
            raise self._unmeasured("a network without classes" if self.quality == "agreement" else NOTHING)
        return known + self.least if self.relative else self.least

    def require_measure(self, labels: object, metric: object) -> None:
        """Refuses a quality that needs labels, or a metric, where there are none.

        Raises:
            OptionError: There is nothing that measures the quality.
        """
        if (self.quality == "top1" and labels is None) or (self.quality == "metric" and metric is None):
            raise self._unmeasured(NOTHING)

    def _unmeasured(self, got: str) -> OptionError:
        remedies = {
            "top1": "give --labels, or labels in Python",
            "metric": "give --metric, or metric in Python",
            "agreement": "ask for sqnr or metric",
        }
        need = f"must be a quality that is measured, not {self.quality}"
        return OptionError("floor", need, got=got, remedy=remedies.get(self.quality))

    def __str__(self) -> str:
        return f"{self.quality}={INT8}{self.least:+g}" if self.relative else f"{self.quality}={self.least:g}"


def budget_of(given: object) -> Budget:
    """Returns the budget that a text stands for: `bytes=24KiB`, `bytes=60%`, `cycles:nmp=100000`, `ms=1.5`.

    Raises:
        OptionError: The text is no budget.
    """
    name, value = _split("budget", given, COSTS)
    cost, _, device = name.partition(":")
    if cost not in COSTS or (cost == "cycles") != bool(device):
        remedy = (
            near_misses(cost, list(COSTS))
            if cost not in COSTS
            else "name the device behind the colon, as in cycles:nmp"
        )
        need = f"must be one of {', '.join(COSTS)}, and a number"
        raise OptionError("budget", need, got=str(given), remedy=remedy)
    if (share := re.fullmatch(r"(\d+(?:\.\d+)?)%", value)) is not None and float(share[1]) > 0:
        return Budget(cost, float(share[1]) / 100, share=True, device=device)
    number = bytes_of(value) if cost in ("bytes", "stored", "arena") else _number(value)
    if number is None or number <= 0:
        raise OptionError("budget", "must be a positive number, or a share of the int8 network's", got=str(given))
    return Budget(cost, float(number), device=device)


def floor_of(given: object) -> Floor:
    """Returns the floor that a text stands for: `sqnr=30`, `agreement=99`, `top1=int8-0.5`.

    Raises:
        OptionError: The text is no floor.
    """
    name, value = _split("floor", given, QUALITIES)
    if name not in QUALITIES:
        need, remedy = f"must be one of {', '.join(QUALITIES)}, and a number", near_misses(name, list(QUALITIES))
        raise OptionError("floor", need, got=str(given), remedy=remedy)
    relative = value.startswith(INT8)
    number = 0.0 if value == INT8 else _number(value.removeprefix(INT8))
    if number is None or (relative and value != INT8 and value[len(INT8)] not in "+-"):
        raise OptionError("floor", "must be a number, or a difference such as int8-0.5", got=str(given))
    return Floor(name, number, relative)


def _split(option: str, given: object, known: dict[str, str]) -> tuple[str, str]:
    if not isinstance(given, str) or "=" not in given:
        example = f"{next(iter(known))}=…"
        raise OptionError(option, f"must be text of the form name=number, such as {example}", got=repr(given))
    name, _, value = given.partition("=")
    return name.strip(), value.strip()


def _number(text: str) -> float | None:
    try:
        value: Any = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
