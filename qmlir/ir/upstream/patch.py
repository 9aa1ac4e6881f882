"""Writes the patch that would make `definitions.py` unnecessary: the same checks inside of xDSL.

    python -m qmlir.ir.upstream.patch > prepared.patch    # against the xDSL that is installed
    git -C xdsl apply prepared.patch

The patch is made of the source of `definitions.py`, so that there is one text of the checks. It is tested on a copy of
the installed package (tests/ir/upstream/test_patch.py).
"""

import difflib
import inspect
import sys
from pathlib import Path

import xdsl

from qmlir.ir.upstream import definitions

CHECKED, ADDED = "xdsl/irdl/operations.py", "xdsl/irdl/prepared.py"
"""The file with `OpDef.verify`, and the file that the patch adds."""

CALL = """\
        from xdsl.irdl.prepared import accepts

        if accepts(self, op):
            for trait in self.traits:
                trait.verify(op)
            return

"""
"""What `OpDef.verify` does first."""

HEAD = '''\
"""Checks of what a definition states about operations, prepared once for each definition.

A prepared check only accepts: what it does not accept, or is not prepared for (several lists of operands or results,
lists of regions or successors), is left to `OpDef.verify`, which says what is wrong.
"""
'''

ACCEPTS = '''\
def accepts(definition: OpDef, op: Operation) -> bool:
    """Whether an operation certainly satisfies its definition but for its traits."""
    kept = vars(definition)
    if _KEY not in kept:
        kept[_KEY] = _prepare(definition)
    prepared: _Prepared | None = kept[_KEY]
    return prepared is not None and prepared.accepts(op)


_KEY = "_prepared"
"""Where a definition keeps its check; no field of it, so it has no part in comparisons of definitions."""

_Named: TypeAlias = tuple[tuple[str, AttrConstraint, bool], ...]
"""Attributes or properties: the name and the constraint of each, and whether it may be missing."""
'''

PARTS = ("_List", "_Prepared", "_present", "_prepare")
"""What the patch takes from `definitions.py`."""


def patch() -> str:
    """Returns the patch as a unified diff."""
    lines = (Path(xdsl.__file__).parents[1] / CHECKED).read_text(encoding="utf-8").splitlines(keepends=True)
    source, first = inspect.getsourcelines(definitions.interpreted)
    begin = first - 1 + next(i for i, line in enumerate(source) if line.rstrip().endswith('"""')) + 1
    changed = [*lines[:begin], *CALL.splitlines(keepends=True), *lines[begin:]]
    imports = inspect.getsource(definitions).partition('"""\n\n')[2].partition("\n\nfrom qmlir")[0]
    taken = [inspect.getsource(getattr(definitions, name)) for name in PARTS]
    parts = [part.rstrip("\n") for part in (f"{HEAD}\n{imports}", ACCEPTS, *taken)]
    added = ("\n\n\n".join(parts) + "\n").splitlines(keepends=True)
    return "".join([
        *difflib.unified_diff(lines, changed, f"a/{CHECKED}", f"b/{CHECKED}"),
        *difflib.unified_diff([], added, "/dev/null", f"b/{ADDED}"),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(patch())
