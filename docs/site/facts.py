"""The table of facts in docs/architecture.md: what each says, and what becomes of it when its operation changes."""

from pathlib import Path

from qmlir.ir.fact import FACTS, Heir, Movement
from qmlir.ir.facts import NAME

PAGE = Path(__file__).resolve().parents[1] / "architecture.md"
BEGIN, END = "<!-- facts -->\n", "<!-- end of facts -->\n"


def page() -> str:
    """The page with its table."""
    assert NAME.key in FACTS
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + _tables() + END + rest.partition(END)[2]


def _tables() -> str:
    """Who takes over facts, those that move alike in one row; then what each fact says."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for fact in FACTS.values():
        if fact.moves:
            rules = (fact.moves[movement] for movement in Movement)
            row = tuple(f"**{rule.value}**" if isinstance(rule, Heir) else rule for rule in rules)
            alike.setdefault(row, []).append(f"`{fact}`")
    moves = _table(["fact", *(m.value for m in Movement)], [[", ".join(facts), *row] for row, facts in alike.items()])
    rows = [
        [f"`{f}`", f.where, f.form.says, f.says + (f" Ends with `{f.ends}`." if f.ends else "")] for f in FACTS.values()
    ]
    return moves + "\n" + _table(["fact", "stands on", "value", "says"], rows)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, ["---"] * len(heads), *rows])
