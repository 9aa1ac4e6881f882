"""Whether a device file says what the hardware is that an encoder writes words for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from qmlir.devices.description.changing import value_of
from qmlir.devices.description.device import Device


@dataclass(frozen=True)
class AtMost:
    """A number, or each of a list, that a device file may have up to a bound; it has to have one."""

    bound: int

    def allows(self, value: object) -> bool:
        """Whether a file may have a value."""
        numbers = cast(list[object], value) if isinstance(value, list) else [value]
        return all(isinstance(number, int) and number <= self.bound for number in numbers)

    def __str__(self) -> str:
        return f"at most {self.bound}"


@dataclass(frozen=True)
class OneOf:
    """Values that a device file may have."""

    values: Sequence[object]

    def allows(self, value: object) -> bool:
        """Whether a file may have a value."""
        return value in self.values

    def __str__(self) -> str:
        return " or ".join(map(str, self.values))


def disagreement(device: Device, hardware: Mapping[str, object]) -> tuple[str, str] | None:
    """The first key of a device that its hardware contradicts: what is needed, and what was got; None if there is none.

    Args:
        device: The device. Keys below an operation that it does not have are left out.
        hardware: Key → its value as plain data, `AtMost` or `OneOf`.
    """
    for key, wanted in hardware.items():
        table, value = key.rpartition(".")[0], value_of(device, key)
        if table.startswith("ops.") and value_of(device, table) is None:
            continue
        allowed = wanted.allows(value) if isinstance(wanted, AtMost | OneOf) else value == wanted
        if not allowed:
            return f"{key} must be {wanted}", "nothing" if value is None else str(value)
    return None
