"""Where qmlir does not compute what LiteRT does, and why: `deviations.yaml`, which the tests hold to what happens.

    litert-reference:
      "LiteRT's kernel scales sums by a wrong factor":
        SUM: {int8: 40, int16: any}
      "refused: …":
        …

Under the numerics and a reason are the operators with their options, and for each way of storing numbers by how many
steps outputs may differ. qmlir's own refusals stand under `refused: ` and its text. What differs from the file, be it
better, is told; `python -m tests.conformance.litert --update` writes it anew and keeps the reasons that it has: what
has none yet stands under `UNEXPLAINED`, which the tests do not take.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from qmlir.running.files import write_whole
from tests.conformance.operators_tflite import ALLOWED, Finding, Findings, Subject

FILE = Path(__file__).with_name("deviations.yaml")
UNEXPLAINED = "not explained"
REFUSED = "refused: "

_HEADER = """\
# Where qmlir differs from LiteRT's kernels on files of one operator, in steps at most, by numerics and reason.
# Written by `python -m tests.conformance.litert --update`, held to what happens by test_operators_tflite.py.
"""

Key = tuple[str, str, str]
"""(numerics, operator with its options, format)"""


def deviation_of(numerics: str, finding: Finding) -> tuple[str, int] | None:
    """(reason where qmlir gives it, steps) of a finding that needs a place in the list."""
    if finding.refused:
        return REFUSED + finding.refused, 0
    return ("", finding.most) if finding.most > ALLOWED.get(numerics, 0) else None


def by_key(surveyed: Iterable[tuple[Subject, Findings]]) -> dict[Key, Finding]:
    """Findings by numerics, operator and format."""
    return {(numerics, s.name, s.format): f for s, found in surveyed for numerics, f in found.items()}


def read(path: Path = FILE) -> dict[Key, tuple[str, int]]:
    """(reason, steps) of what is listed."""
    content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return {
        (numerics, name, format): (reason, steps)
        for numerics, reasons in content.items()
        for reason, names in reasons.items()
        for name, formats in names.items()
        for format, steps in formats.items()
    }


def write(findings: Mapping[Key, Finding], path: Path = FILE) -> None:
    """Writes the file anew; of what was not surveyed it keeps what it says."""
    known = read(path) if path.exists() else {}
    listed = {k: v for k, v in known.items() if k not in findings}
    for key, finding in findings.items():
        if (found := deviation_of(key[0], finding)) is not None:
            reason, steps = found
            own = known.get(key, (UNEXPLAINED, 0))[0]
            listed[key] = (reason or (UNEXPLAINED if own.startswith(REFUSED) else own), steps)
    content: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for (numerics, name, format), (reason, steps) in sorted(listed.items(), key=lambda e: (e[0][0], e[1][0], e[0])):
        content.setdefault(numerics, {}).setdefault(reason, {}).setdefault(name, {})[format] = steps
    text = yaml.dump(content, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    write_whole(path, _HEADER + text)


def differences(findings: Mapping[Key, Finding], *, whole: bool) -> list[str]:
    """How findings differ from the file, a line each; defects among them.

    Args:
        findings: What was found.
        whole: Whether all draws were looked at, so that what is listed has to show itself.
    """
    listed, found = read(), list[str]()
    for key, finding in sorted(findings.items()):
        name = ", ".join(key)
        if finding.wrong:
            found.append(f"{name}: {finding.wrong}")
            continue
        now, then = deviation_of(key[0], finding), listed.get(key)
        if then is not None and then[0] == UNEXPLAINED:
            found.append(f"{name}: listed without a reason")
        elif now is not None and (then is None or now[1] > then[1] or (now[0] and now[0] != then[0])):
            found.append(f"{name}: {_said(now)}, the list has: {_said(then)}")
        elif then is not None and now is None and whole:
            found.append(f"{name}: it agrees, the list has: {_said(then)}")
    return found


def _said(deviation: tuple[str, int] | None) -> str:
    if deviation is None:
        return "nothing"
    reason, steps = deviation
    return reason if reason.startswith(REFUSED) else f"{steps} steps off {f'({reason})' if reason else ''}".strip()


def unknown(chosen: Iterable[Subject]) -> list[Key]:
    """Listed operators that nothing surveys."""
    names = {(s.name, s.format) for s in chosen}
    return [key for key in read() if key[1:] not in names]
