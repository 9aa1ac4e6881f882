"""Tasks in processes of their own: none can crash, hang or fill the memory of the run.

    for index, result in isolated(work, tasks, seconds=60): ...

Children are forked, so `work` and the tasks may be anything; results are sent back and have to be picklable.
"""

import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 6
"""Seconds of the clock for each second of processor time, on a machine that others use too."""


@dataclass(frozen=True)
class Died:
    """A task without a result.

    why   what became of it: it took too long, or its process ended
    """

    why: str


@dataclass
class _Child(Generic[T, R]):
    """A process that works on one task after another.

    task   the index of the task it has; None between tasks
    since  when it got it
    """

    work: Callable[[T], R]
    tasks: Sequence[T]
    memory: int
    seconds: float
    task: int | None = None
    since: float = 0.0
    _process: Any = field(init=False)
    pipe: Any = field(init=False)

    def __post_init__(self):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(self.pipe, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def _serve(self, ours: Any, pipe: Any) -> None:
        ours.close()
        if self.memory:
            resource.setrlimit(resource.RLIMIT_DATA, (self.memory, self.memory))
        while True:
            try:
                index = pipe.recv()
            except EOFError:
                os._exit(0)
            spent = resource.getrusage(resource.RUSAGE_SELF)
            most = math.ceil(spent.ru_utime + spent.ru_stime + self.seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
            pipe.send(self.work(self.tasks[index]))

    def give(self, index: int) -> None:
        """Starts work on a task."""
        self.task, self.since = index, time.monotonic()
        self.pipe.send(index)

    def stop(self) -> int | None:
        """Ends the process; returns how it had ended by itself, None if it had not."""
        self._process.join(0.2)
        code = self._process.exitcode
        self._process.kill()
        self._process.join()
        self.pipe.close()
        return code


def isolated(
    work: Callable[[T], R],
    tasks: Sequence[T],
    *,
    seconds: float,
    memory: int = 0,
    jobs: int | None = None,
    patience: float = PATIENCE,
) -> Iterator[tuple[int, R | Died]]:
    """Yields the index of each task with its result, as they are done.

    Args:
        work: What to do with a task; an exception it lets out ends its process, and is a `Died`.
        tasks: The tasks.
        seconds: The most processor time that one task may take; it may take `patience` times that by the clock.
        memory: The most bytes of private memory a process may have; 0 for no limit.
        jobs: Processes at a time; by default one for each processor.
        patience: Seconds of the clock for each second of processor time.
    """
    waiting = list(reversed(range(len(tasks))))
    children: list[_Child[T, R]] = []

    def start() -> None:
        child = _Child(work, tasks, memory, seconds)
        child.give(waiting.pop())
        children.append(child)

    try:
        for _ in range(min(jobs or os.cpu_count() or 1, len(tasks))):
            start()
        while children:
            ready = connection.wait([c.pipe for c in children], timeout=0.2)
            for child in list(children):
                assert child.task is not None
                late = time.monotonic() - child.since > patience * seconds
                if child.pipe not in ready and not late:
                    continue
                result = _result(child) if child.pipe in ready else Died(f"it took more than {patience * seconds:g} s")
                yield child.task, result
                if isinstance(result, Died):
                    child.stop()
                    children.remove(child)
                    if waiting:
                        start()
                elif waiting:
                    child.give(waiting.pop())
                else:
                    child.stop()
                    children.remove(child)
    finally:
        for child in children:
            child.stop()


def _result(child: _Child[T, R]) -> R | Died:
    """What a child whose pipe has something to read has sent."""
    try:
        return child.pipe.recv()
    except EOFError:
        code = child.stop()
        if code == -signal.SIGXCPU:
            return Died(f"it took more than {child.seconds:g} s of processor time")
        return Died("its process ended" if code is None else f"its process ended with exit status {code}")
