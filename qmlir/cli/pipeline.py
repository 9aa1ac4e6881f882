"""Runs a pass with mlir-opt's means of observation: dumps of the IR, verification and timing.

Dumps go to standard error under the header that mlir-opt uses, with large weights elided. `Changes` chooses what is
dumped after a pass that changed the module: nothing more, the whole module, or the lines that differ.
"""

import difflib
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.ir.context import QmlirContext
from qmlir.ir.passes import PassPipeline
from qmlir.ir.source import SourceError
from qmlir.ir.verify import verification_errors
from qmlir.ir.weights import WeightsMode, module_text


@dataclass
class Stopwatch:
    """Wall time in seconds by activity; repeated activities add up."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, what: str) -> Generator[None, None, None]:
        """Adds the time spent inside the block to `what`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start

    def report(self) -> str:
        """Returns the table of `--mlir-timing`."""
        total = sum(self.seconds.values())
        rule = "===" + "-" * 73 + "==="
        rows = [(s, what) for what, s in self.seconds.items()] + [(total, "Total")]
        lines = [
            rule,
            "... Execution time report ...".center(len(rule)).rstrip(),
            rule,
            f"  Total Execution Time: {total:.4f} seconds\n",
            "  ----Wall Time----  ----Name----",
            *(f"  {s:8.4f} ({s / max(total, 1e-9):6.1%})  {what}" for s, what in rows),
        ]
        return "\n".join(lines) + "\n"


class Changes(Enum):
    """What is dumped after each pass that changed the module."""

    NOTHING = "nothing"
    MODULE = "module"
    LINES = "lines"


@dataclass(frozen=True)
class Watch:
    """The passes before and after which to dump the IR; `all_before` and `all_after` mean every pass."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    all_before: bool = False
    all_after: bool = False
    changes: Changes = Changes.NOTHING


def run_pass(
    ctx: QmlirContext, module: ModuleOp, each: ModulePass, *, watch: Watch, stopwatch: Stopwatch, verify: bool
) -> list[SourceError]:
    """Runs one pass on `module`, in place, then verifies the module.

    Returns:
        Errors for the IR that the pass left invalid. The pass's own exceptions are not caught.
    """
    if isinstance(each, PassPipeline):
        return _run_pipeline(ctx, module, each, watch=watch, stopwatch=stopwatch, verify=verify)
    if watch.all_before or each.name in watch.before:
        _dump(module, f"Before {each.name}")
    before = "" if watch.changes is Changes.NOTHING else module_text(module, WeightsMode.ELIDED)
    with stopwatch.measure(each.name):
        each.apply(ctx, module)
    if watch.all_after or each.name in watch.after:
        _dump(module, f"After {each.name}")
    elif watch.changes is not Changes.NOTHING:
        _dump_change(module, before, each.name, watch.changes)
    if not verify:
        return []
    with stopwatch.measure("(verify)"):
        errors = verification_errors(module)
    return [SourceError(f'pass "{each.name}" left invalid IR: {e.message}', e.location) for e in errors]


def _run_pipeline(
    ctx: QmlirContext, module: ModuleOp, each: PassPipeline, *, watch: Watch, stopwatch: Stopwatch, verify: bool
) -> list[SourceError]:
    """Runs the passes of a pass that is made of passes; it is dumped as a whole if the user names it."""
    if each.name in watch.before:
        _dump(module, f"Before {each.name}")
    for step in each.steps(ctx, module):
        if errors := run_pass(ctx, module, step, watch=watch, stopwatch=stopwatch, verify=verify):
            return errors
    if each.name in watch.after:
        _dump(module, f"After {each.name}")
    return []


def _dump(module: ModuleOp, when: str) -> None:
    _write(module_text(module, WeightsMode.ELIDED), when)


def _dump_change(module: ModuleOp, before: str, name: str, changes: Changes) -> None:
    """Dumps what a pass changed; `before` is the module's text before the pass."""
    after = module_text(module, WeightsMode.ELIDED)
    if after == before:
        _write("", f"After {name} (no change)")
    elif changes is Changes.MODULE:
        _write(after, f"After {name}")
    else:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
        _write("\n".join(list(lines)[2:]), f"Change by {name}")  # without the two lines that name files


def _write(text: str, when: str) -> None:
    sys.stderr.write(f"// -----// IR Dump {when} //----- //\n{text}\n")
    sys.stderr.flush()
