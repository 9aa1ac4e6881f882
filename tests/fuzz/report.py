"""What a run has found: counts by check, operator, refusal and finding."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fuzz.checks import Finding, Outcome

RARE = 5
"""Graphs below which an operator counts as hardly covered."""


@dataclass
class Report:
    """Sums over the cases of a run.

    cases      how many were run
    done       check → how often it was made
    refusals   (step, reason) → how often
    operators  operator → nodes of it
    findings   kind of finding → numbers of the cases that have it, with what was found
    """

    cases: int = 0
    done: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    operators: Counter[str] = field(default_factory=Counter[str])
    findings: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, number: int, outcome: Outcome) -> None:
        """Counts a case."""
        self.cases += 1
        self.done += outcome.done
        self.refusals += outcome.refusals
        self.operators += Counter(set(outcome.operators))
        for finding in outcome.findings:
            self.include(number, finding)

    def include(self, number: int, finding: Finding) -> None:
        """Counts a finding."""
        self.findings[finding.key].append((number, finding.detail))

    def text(self, known: Iterable[str], *, refusals: int = 25) -> str:
        """The tables.

        Args:
            known: The operators that can be drawn.
            refusals: How many reasons are listed.
        """
        lines = [f"{self.cases} graphs, {sum(map(len, self.findings.values()))} findings of {len(self.findings)} kinds"]
        lines += ["", "checks made"]
        lines += [f"  {count:7d}  {name}" for name, count in sorted(self.done.items())]
        seldom = sorted((self.operators[name], name) for name in known if self.operators[name] < RARE)
        lines += ["", f"operators: {len(self.operators)} seen; in fewer than {RARE} graphs: "
                  + (", ".join(f"{name} {count}" for count, name in seldom) or "none")]  # fmt: skip
        lines += ["", f"refusals: {sum(self.refusals.values())} for {len(self.refusals)} reasons; the most frequent"]
        lines += [f"  {n:7d}  {step}: {reason}" for (step, reason), n in self.refusals.most_common(refusals)]
        lines += ["", "findings"]
        for (check, kind), found in sorted(self.findings.items(), key=lambda item: -len(item[1])):
            numbers = ", ".join(str(number) for number, _ in found[:8])
            lines += [f"  {len(found):7d}  {check}: {kind}  (cases {numbers})", f"           {found[0][1][:200]}"]
        return "\n".join(lines if self.findings else [*lines, "  none"])
