"""The choice of a kernel: tables in order of preference, whose first candidate that suits a task lowers it.

    SINGLES = Candidate("single products", lower_contraction)
    choose(state, task, (MATRIX_UNIT, WINOGRAD, …, SINGLES))

A candidate is a kernel with an arithmetic. It says which processors have what it takes, and why a task does not suit
it. What was chosen is recorded with the reasons against the candidates before it that the processor has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from qmlir.codegen.kernels.task import A, Task
from qmlir.codegen.lowering import MainLowering
from qmlir.codegen.machine import Capabilities
from qmlir.ir.interfaces import shape_of


def _every(machine: Capabilities) -> bool:
    return True


def _nothing(task: object, machine: Capabilities) -> str:
    return ""


@dataclass(frozen=True)
class Candidate(Generic[A]):
    """A kernel with an arithmetic.

    name      what the list of layers shows
    lower     calls the kernel for a task
    has       whether a processor has what the kernel takes
    why_not   why a task does not suit the kernel, or costs more with it than with a later one; empty if it suits
    """

    name: str
    lower: Callable[[MainLowering, Task[A]], None]
    has: Callable[[Capabilities], bool] = _every
    why_not: Callable[[Task[A], Capabilities], str] = _nothing


def choose(state: MainLowering, task: Task[A], candidates: Sequence[Candidate[A]]) -> None:
    """Lowers a task by the first candidate that suits it; an empty result needs no kernel."""
    if 0 in shape_of(task.result):
        state.replace(task.result, state.allocate_result(task.result))
        return
    passed: list[str] = []
    for candidate in candidates:
        if not candidate.has(state.machine):
            continue
        if not (reason := candidate.why_not(task, state.machine)):
            break
        passed.append(f"not {candidate.name}: {reason}")
    else:
        raise AssertionError(f"no kernel suits {task.name}")
    state.record(candidate.name, "; ".join(passed))
    candidate.lower(state, task)
