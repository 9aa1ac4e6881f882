"""The state of NVDLA's units: two groups of registers each, which they take in turn."""

from dataclasses import dataclass, field
from typing import NoReturn

from qmlir.backends.hardware.nvdla.registers import BY_NAME, Field, Register
from qmlir.errors import QmlirError


def _fields(unit: str) -> dict[str, tuple[Register, Field]]:
    """Fields of a unit by their names, which are unique among its registers that hold what a layer is."""
    registers = [register for register in BY_NAME.values() if register.unit == unit and not register.read_only]
    return {field.name: (register, field) for register in registers for field in register.fields}


FIELDS = {unit: _fields(unit) for unit in dict.fromkeys(unit for unit, _ in BY_NAME)}


@dataclass(frozen=True)
class Settings:
    """What a unit's registers held when it began a layer: a group of them, and those that both groups share."""

    unit: str
    group: int
    values: dict[str, int]

    def __getitem__(self, name: str) -> int:
        """Returns a field, as a number without sign."""
        register, bits = FIELDS[self.unit][name]
        return bits.of(self.values[register.name])

    def where(self, name: str) -> str:
        """Returns what names a field in errors."""
        return f"NVDLA {self.unit}.{FIELDS[self.unit][name][0].name}"

    def refuse(self, need: str, name: str, got: object = None) -> NoReturn:
        """Refuses a layer for what a field holds.

        Raises:
            QmlirError: Always: what was needed, at the field, and what it holds or `got`.
        """
        raise QmlirError(need, where=self.where(name), got=f"{name} = {self[name]}" if got is None else str(got))

    def needs(self, name: str, value: int, why: str) -> None:
        """Refuses a layer unless a field holds a value.

        Raises:
            QmlirError: The field holds something else.
        """
        if self[name] != value:
            self.refuse(f"{name} must be {value}: {why}", name)

    def agrees(self, name: str, other: "Settings", theirs: str | None = None) -> None:
        """Refuses a layer of which two units were told different things, which makes one wait for the other.

        Raises:
            QmlirError: The fields differ.
        """
        theirs = theirs or name
        if self[name] != other[theirs]:
            got = f"{self[name]} and {other[theirs]}"
            raise QmlirError(f"{name} must be what {other.where(theirs)} says", where=self.where(name), got=got)

    def address(self, low: str, high: str) -> int:
        """Returns an address.

        Raises:
            QmlirError: It has more than 32 bits.
        """
        self.needs(high, 0, "NVDLA small has addresses of 32 bits")
        return self[low]


@dataclass
class Unit:
    """A unit of NVDLA: its registers, which group the driver writes, and which one it takes next."""

    name: str
    producer: int = 0
    consumer: int = 0
    shared: dict[str, int] = field(default_factory=dict[str, int])
    groups: tuple[dict[str, int], dict[str, int]] = ({}, {})
    enabled: list[bool] = field(default_factory=lambda: [False, False])

    def __post_init__(self):
        registers = [register for register in BY_NAME.values() if register.unit == self.name]
        self.shared = {register.name: register.reset for register in registers if not register.grouped}
        reset = {register.name: register.reset for register in registers if register.grouped}
        self.groups = dict(reset), dict(reset)

    @property
    def ready(self) -> bool:
        """Whether the group that is next has been enabled."""
        return self.enabled[self.consumer]

    def settings(self) -> Settings:
        """Returns what the registers of the next group hold now."""
        return Settings(self.name, self.consumer, {**self.shared, **self.groups[self.consumer]})

    def finish(self) -> int:
        """Ends a layer, so that the other group is next, and returns the group that it was of."""
        group = self.consumer
        self.enabled[group], self.consumer = False, 1 - group
        return group
