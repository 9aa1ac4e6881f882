"""Networks on devices (devices.py) as cases of a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fuzz import devices
from tests.fuzz.checks import Finding, Outcome, check
from tests.fuzz.shrink import smaller, source


@dataclass(frozen=True)
class DeviceCase:
    """The network of a seed on a device; the seed says what the quantizer's options are, too."""

    seed: int
    device: str


@check.register
def _(case: DeviceCase) -> Outcome:
    outcome = Outcome()
    found = devices.outcome(case.seed, case.device)
    outcome.done[f"network on {case.device}"] += found.compared
    if (wrong := found.mismatch) is not None:
        *_, last = wrong.found.strip().splitlines()
        words = "".join("#" if c.isdigit() else c for c in last[:80]) if wrong.kind in ("error", "cost") else ""
        outcome.findings.append(Finding(f"network on {case.device}", f"{wrong.kind} {words}".strip(), str(wrong)))
    return outcome


@smaller.register
def _(case: DeviceCase) -> Iterator[Any]:
    """A mismatch is of few operations already."""
    yield from ()


@source.register
def _(case: DeviceCase) -> str:
    return f"""from tests.fuzz.checks import check
from tests.fuzz.device_cases import DeviceCase

CASE = DeviceCase({case.seed}, {case.device!r})
"""
