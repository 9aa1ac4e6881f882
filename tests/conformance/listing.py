"""What of ONNX's cases qmlir does not take, and why: `unsupported.yaml`, which the tests hold to what really happens.

    onnx: 1.23.2
    import:
      "NonZero: qmlir knows no NonZero":
        node: [test_nonzero_example]
    CPU:
      …

Under `import` are the cases that both back ends lack, under `CPU` those that pass in the reference only; each under
qmlir's own reason. A case that newly passes, newly is refused or is refused for another reason differs from the file:
`python -m tests.conformance --update` writes it anew, and the difference is read before it is committed.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx
import yaml

from qmlir.running.files import write_whole
from tests.conformance.cases import Case
from tests.conformance.outcomes import FAILED, LISTED, PASSED, Outcome

FILE = Path(__file__).with_name("unsupported.yaml")

_HEADER = """\
# ONNX's test cases that qmlir refuses, by its reason: under `import` on both back ends, under `CPU` on that one only.
# Written by `python -m tests.conformance --update`, held to what happens by test_onnx_cases.py.
"""

Key = tuple[str, str]
"""(suite, case)"""


def reason_of(outcome: Outcome) -> tuple[str, str] | None:
    """(`import` or `CPU`, qmlir's reason) of a case that is refused; None for one that is not."""
    if outcome.reference.status == LISTED:
        return "import", outcome.reference.text
    return ("CPU", outcome.cpu.text) if outcome.cpu.status == LISTED else None


def read(path: Path = FILE) -> tuple[str, dict[Key, tuple[str, str]]]:
    """The version of onnx that the file is about, and (`import` or `CPU`, reason) of each listed case."""
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    version = content.pop("onnx")
    return version, {
        (suite, name): (where, reason)
        for where, reasons in content.items()
        for reason, suites in (reasons or {}).items()
        for suite, names in suites.items()
        for name in names
    }


def write(outcomes: Mapping[Key, Outcome], path: Path = FILE) -> None:
    """Writes the file anew; of cases that were not run it keeps what it says."""
    kept = read(path)[1] if path.exists() else {}
    listed = {k: v for k, v in kept.items() if k not in outcomes}
    listed |= {key: reason for key, o in outcomes.items() if (reason := reason_of(o)) is not None}
    content: dict[str, object] = {"onnx": onnx.__version__}
    for where in ("import", "CPU"):
        tree: dict[str, dict[str, list[str]]] = {}
        for (suite, name), (place, reason) in sorted(listed.items(), key=lambda e: (e[1], e[0])):
            if place == where:
                tree.setdefault(reason, {}).setdefault(suite, []).append(name)
        content[where] = tree
    text = yaml.dump(content, sort_keys=False, allow_unicode=True, width=118, default_flow_style=None)
    write_whole(path, _HEADER + text)


def differences(outcomes: Mapping[Key, Outcome]) -> list[str]:
    """How outcomes differ from the file, a line each; defects among them.

    With another onnx than the file's, cases and texts of onnx differ: then only defects count.
    """
    version, listed = read()
    found: list[str] = []
    for key, outcome in sorted(outcomes.items()):
        name = "/".join(key)
        for backend in ("reference", "CPU"):
            if outcome.of(backend).status == FAILED:
                found.append(f"{name}: {backend}: {outcome.of(backend).text}")
        if version != onnx.__version__ or FAILED in (outcome.reference.status, outcome.cpu.status):
            continue
        now, then = reason_of(outcome), listed.get(key)
        if now != then:
            found.append(f"{name}: {_said(now)}, the list has: {_said(then)}")
    return found


def _said(reason: tuple[str, str] | None) -> str:
    return "it passes" if reason is None else f"refused by {reason[0]}: {reason[1]}"


def unknown(cases: Iterable[Case]) -> list[Key]:
    """Listed cases that the installed onnx, if it is the file's, does not have."""
    version, listed = read()
    known = {(c.suite, c.name) for c in cases}
    return [key for key in listed if key not in known] if version == onnx.__version__ else []


def counts(outcomes: Iterable[Outcome], backend: str) -> dict[str, int]:
    """How many passed, are listed, and failed."""
    statuses = [o.of(backend).status for o in outcomes]
    return {s: statuses.count(s) for s in (PASSED, LISTED, FAILED)}
