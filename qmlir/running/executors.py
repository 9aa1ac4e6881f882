"""Where work runs: in this process, in processes of this machine, on a Dask cluster, or on any executor.

    workers_of(None)                       this process
    workers_of(4)                          four processes
    workers_of("tcp://scheduler:8786")     the workers of a Dask cluster: `pip install qmlir[cluster]`
    workers_of(executor)                   any `concurrent.futures.Executor`

A command splits its work into tasks, and each task depends on nothing but its arguments. So results are the same, to
the byte, wherever the tasks run and however many run side by side. A worker that ends in the middle of a task, killed
or out of memory, loses that task alone: it runs again. What all tasks need, such as a network, is sent once for each
worker.

Workers know what installed packages register (docs/extending.md). They do not know what only the running program has
registered, such as a calibration of a notebook.
"""

import hashlib
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast

from qmlir.display import bytes_text, counted
from qmlir.errors import OptionError, QmlirError, QmlirWarning

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of tasks that are done, whenever a task is."""

RETRIES = 3
"""How often in a row workers may end without a task done in between, before that is an error."""

AHEAD = 2
"""Tasks that are submitted for each worker; more would only fill the queues."""

SHARE = 0.8
"""The share of this machine's memory that all processes together may take."""

KILLED = "KilledWorker"
"""Dask's error for a task whose workers ended again and again."""

CONNECTING = 20
"""Seconds in which a scheduler must answer."""


class Workers:
    """Runs tasks one after another in this process; subclasses run them elsewhere.

    count    how many tasks run side by side
    memory   the most bytes of a worker; None without a limit
    """

    count: int = 1
    memory: int | None = None

    @property
    def said(self) -> str:
        """Where the tasks run and how much memory a worker may take, in words."""
        return "this process"

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run in other processes or threads, so that it pays to split work into tasks."""
        return False

    def map(
        self,
        function: Callable[[S, T], R],
        shared: S,
        tasks: Iterable[T],
        done: Progress | None = None,
        keep: Callable[[T, R], None] | None = None,
    ) -> list[R]:
        """Returns the results of a function for all tasks, in the order of the tasks.

        Args:
            function: A function of a module: (shared, task) → the result. It must depend on nothing else.
            shared: What all tasks need.
            tasks: The tasks; they are taken from the iterator as workers become free.
            done: Is called with the number of tasks that are done, whenever a task is.
            keep: Is called with a task and its result, as soon as it is there, to write it to disk.

        Raises:
            QmlirError: The error of the first task that fails, or workers end again and again.
        """
        found: list[R] = []
        for task in tasks:
            found.append(result := function(shared, task))
            if keep is not None:
                keep(task, result)
            if done is not None:
                done(len(found))
        return found

    def close(self) -> None:
        """Ends the workers that this object has started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Shared(Generic[S]):
    """A value that all tasks need, as a worker receives it.

    digest  the hash of its bytes, by which a worker knows that it has the value already
    data    its bytes; None if they lie in a file
    path    the file on this machine that holds them
    """

    digest: str
    data: bytes | None = None
    path: str = ""

    def load(self) -> S:
        """Returns the value: the one that this process has unpickled before, if it is the last one."""
        if self.digest not in _LOADED:
            data = Path(self.path).read_bytes() if self.data is None else self.data
            value = pickle.loads(data)
            _LOADED.clear()
            _LOADED[self.digest] = value
        return _LOADED[self.digest]


_LOADED: dict[str, Any] = {}
"""The last shared value of this process, by its digest."""


@dataclass(frozen=True)
class _Result(Generic[R]):
    """The result of a task, and the warnings that the task gave."""

    value: R
    said: list[str]


def _run(function: Callable[[Any, Any], R], shared: Shared[Any], task: Any, memory: int | None) -> _Result[R]:
    """Runs a task in a worker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", QmlirWarning)
        try:
            value = function(shared.load(), task)
        except MemoryError:
            got = "no limit of its own" if memory is None else f"at most {bytes_text(memory)}"
            remedy = "allow more by --worker-memory, or have fewer workers by --jobs"
            raise QmlirError(
                "a task must fit the memory of a worker", where="workers", got=got, remedy=remedy
            ) from None
    return _Result(value, [str(each.message) for each in caught if issubclass(each.category, QmlirWarning)])


class ExecutorWorkers(Workers):
    """Runs tasks on an executor of the caller's."""

    def __init__(self, executor: Executor, count: int | None = None):
        """Takes an executor.

        Args:
            executor: It stays open.
            count: How many tasks it runs side by side; by default as many as it says.
        """
        known: Any = getattr(executor, "_max_workers", 1)
        self._executor = executor
        self.count = max(1, int(known) if count is None else count)

    @property
    def said(self) -> str:
        return f"{counted(self.count, 'worker')} of a {type(self._executor).__name__}"

    @property
    def elsewhere(self) -> bool:
        return True

    def executor(self) -> Executor:
        """Returns the executor, made anew if its workers have ended."""
        return self._executor

    def renew(self) -> bool:
        """Replaces workers that have ended; returns False if this object cannot."""
        return False

    def share(self, data: bytes, digest: str) -> Any:
        """Returns what a task gets for a shared value: a `Shared`, or something that becomes it on a worker."""
        return Shared[Any](digest, data)

    def map(
        self,
        function: Callable[[S, T], R],
        shared: S,
        tasks: Iterable[T],
        done: Progress | None = None,
        keep: Callable[[T, R], None] | None = None,
    ) -> list[R]:
        try:
            data = pickle.dumps(shared, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            remedy = "take a function of a module, or leave out --jobs and --scheduler"
            raise OptionError("workers", "can take only what pickles", got=str(error), remedy=remedy) from None
        digest = hashlib.sha256(data).hexdigest()
        return _Run(self, function, lambda: self.share(data, digest), iter(tasks), done, keep).results()


@dataclass
class _Run(Generic[T, R]):
    """The tasks of one call, under way.

    waiting   tasks that were submitted to workers that have ended, by number
    running   the future of a task → its number and the task
    found     number → result
    failed    number → error
    breaks    how often in a row workers have ended without a task done in between
    """

    workers: ExecutorWorkers
    function: Callable[[Any, T], R]
    share: Callable[[], Any]
    tasks: Iterator[T]
    done: Progress | None
    keep: Callable[[T, R], None] | None
    waiting: list[tuple[int, T]] = field(default_factory=list[tuple[int, T]])
    running: "dict[Future[_Result[R]], tuple[int, T]]" = field(default_factory=dict[Any, Any])
    found: dict[int, R] = field(default_factory=dict[int, R])
    failed: dict[int, BaseException] = field(default_factory=dict[int, BaseException])
    said: dict[str, None] = field(default_factory=dict[str, None])
    breaks: int = 0
    begun: int = 0

    def results(self) -> list[R]:
        """Submits tasks as workers become free; returns the results in the order of the tasks."""
        shared = self.share()
        try:
            while not (intact := self._submit(shared)) or self.running:
                if not (intact and self._collect()):
                    self._renew()
                    shared = self.share()
        finally:
            for future in self.running:
                future.cancel()
        if self.failed:
            raise self.failed[min(self.failed)]
        for text in self.said:
            warnings.warn(text, QmlirWarning, stacklevel=4)
        return [self.found[number] for number in range(self.begun)]

    def _following(self) -> tuple[int, T] | None:
        """The task to submit next: tasks are begun in order, so that none before one that failed is left out."""
        if self.waiting:
            return heappop(cast("list[Any]", self.waiting))
        if self.failed:
            return None
        for task in self.tasks:
            self.begun += 1
            return self.begun - 1, task
        return None

    def _submit(self, shared: Any) -> bool:
        """Submits tasks for all workers; returns False if the workers have ended."""
        while len(self.running) < AHEAD * self.workers.count and (following := self._following()) is not None:
            try:
                future = self.workers.executor().submit(_run, self.function, shared, following[1], self.workers.memory)
            except BrokenExecutor:
                heappush(cast("list[Any]", self.waiting), following)
                return False
            self.running[future] = following
        return True

    def _collect(self) -> bool:
        """Takes the results of the tasks that are done; returns False if workers have ended."""
        intact = True
        for future in wait(self.running, return_when=FIRST_COMPLETED).done if self.running else ():
            number, task = self.running.pop(future)
            try:
                result = future.result()
            except (BrokenExecutor, CancelledError):
                heappush(cast("list[Any]", self.waiting), (number, task))
                intact = False
            except BaseException as error:
                self.failed[number] = _ended(self.workers) if type(error).__name__ == KILLED else error
            else:
                self.found[number], self.breaks = result.value, 0
                self.said |= dict.fromkeys(result.said)
                if self.keep is not None:
                    self.keep(task, result.value)
                if self.done is not None:
                    self.done(len(self.found))
        return intact

    def _renew(self) -> None:
        """Replaces the workers; tasks that they had begin again.

        Raises:
            QmlirError: They have ended too often, or cannot be replaced.
        """
        self.breaks += 1
        for future, following in self.running.items():
            future.cancel()
            heappush(cast("list[Any]", self.waiting), following)
        self.running.clear()
        if self.breaks > RETRIES or not self.workers.renew():
            raise _ended(self.workers)


def _ended(workers: Workers) -> QmlirError:
    limit = "" if workers.memory is None else f", each with at most {bytes_text(workers.memory)}"
    remedy = "see whether the system ran out of memory; have fewer workers, or give each more memory"
    return QmlirError("workers must not end again and again", where="workers", got=workers.said + limit, remedy=remedy)


# ---------------------------------------------------------------------------------------------------------------
# Processes of this machine


class ProcessWorkers(ExecutorWorkers):
    """Runs tasks in processes of this machine, each with at most its share of the memory."""

    def __init__(self, count: int, memory: int | None = None):
        """Notes how many processes to start; they start with the first task.

        Args:
            count: The number of processes.
            memory: The most bytes of data of a process; by default an equal share of this machine's memory.
        """
        self.count = count
        self.memory = share_of_memory(count) if memory is None else memory
        self._pool: Executor | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="qmlir-workers-", ignore_cleanup_errors=True)

    @property
    def said(self) -> str:
        limit = "" if self.memory is None else f", each with at most {bytes_text(self.memory)} of memory"
        return f"{self.count} processes{limit}" if self.count > 1 else f"1 process{limit}"

    def executor(self) -> Executor:
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            begin = (self.memory, max(1, (os.cpu_count() or 1) // self.count))
            # Machine code and its threads do not survive a fork.
            self._pool = ProcessPoolExecutor(self.count, get_context("spawn"), initializer=_begin, initargs=begin)
        return self._pool

    def renew(self) -> bool:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        return True

    def share(self, data: bytes, digest: str) -> Any:
        path = Path(self._folder.name) / digest
        if not path.exists():
            path.write_bytes(data)
        return Shared[Any](digest, path=str(path))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._folder.cleanup()


def _begin(memory: int | None, threads: int) -> None:
    """Prepares a process: its memory, its threads, and the modules of the working directory that --metric may name."""
    if memory is not None:
        with suppress(ImportError, ValueError, OSError):  # Windows has no limits, and other systems not this one
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

    threadpool_limits(threads)
    sys.path.append(os.getcwd())


def share_of_memory(count: int) -> int | None:
    """Returns the bytes that each of `count` processes may take; None if the system does not say what there is."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE) // count


# ---------------------------------------------------------------------------------------------------------------
# A Dask cluster


class DaskWorkers(ExecutorWorkers):
    """Runs tasks on a Dask cluster, through its executor.

    A worker that ends loses its tasks, and the scheduler gives them to another one. A shared value that only lost
    workers held is sent anew.
    """

    def __init__(self, address: str):
        """Connects to a scheduler.

        Args:
            address: Such as tcp://localhost:8786.

        Raises:
            OptionError: `distributed` is not installed, there is no scheduler, or the scheduler has no workers.
        """
        try:
            from distributed import Client
        except ImportError:
            remedy = "pip install 'qmlir[cluster]'"
            raise OptionError("scheduler", "needs the package distributed", got="none", remedy=remedy) from None
        try:
            client: Any = Client(address, timeout=CONNECTING, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            remedy = "start one with `dask scheduler`, and workers with `dask worker ADDRESS`"
            got = f"{address}: {str(error) or 'no answer'}"
            raise OptionError("scheduler", "must be the address of a Dask scheduler", got=got, remedy=remedy) from None
        self._client, self._address = client, address
        known: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        if not known:
            client.close()
            remedy = f"start workers with `dask worker {address}`"
            raise OptionError("scheduler", "must have workers", got=f"none at {address}", remedy=remedy)
        self._known = len(known)
        self.count = sum(int(each["nthreads"]) for each in known.values())
        self.memory = min((int(each["memory_limit"]) for each in known.values() if each["memory_limit"]), default=None)
        self._pool: Executor = client.get_executor(pure=False)

    @property
    def said(self) -> str:
        limit = "no limit of memory" if self.memory is None else f"at most {bytes_text(self.memory)} of memory"
        side = "" if self.count == self._known else f", {self.count} tasks side by side"
        return f"{counted(self._known, 'worker')} at {self._address}{side}, each with {limit}"

    def executor(self) -> Executor:
        return self._pool

    def renew(self) -> bool:
        self._pool = self._client.get_executor(pure=False)
        return True

    def share(self, data: bytes, digest: str) -> Any:
        return self._client.scatter(Shared[Any](digest, data), broadcast=True, hash=False)

    def close(self) -> None:
        self._pool.shutdown(wait=False)
        self._client.close()


# ---------------------------------------------------------------------------------------------------------------
# The choice

Given: TypeAlias = Workers | Executor | int | str | None
"""What users give for workers: a number of processes, the address of a Dask scheduler, an executor, or nothing."""


def workers_of(given: Given, memory: int | None = None) -> Workers:
    """Returns the workers that a user asks for; whoever asks by a number or an address closes them.

    Args:
        given: A number of processes, the address of a Dask scheduler, an executor, workers, or None for this process,
            as 1 is.
        memory: The most bytes of each of several processes; by default an equal share of this machine's memory.

    Raises:
        OptionError: It is none of these, the cluster cannot be reached, or the limit of memory is not ours to set.

    >>> workers_of(None).map(lambda shared, task: shared + task, 10, [1, 2])
    [11, 12]
    """
    if memory is not None and given == 1:
        warnings.warn("worker memory: is a limit of several processes; this one has none", QmlirWarning, stacklevel=2)
    elif memory is not None and not (isinstance(given, int) and given > 1):
        remedy = "limit Dask's workers where they start" if isinstance(given, str) else "ask for processes by --jobs"
        raise OptionError("worker memory", "is a limit of processes", got=f"workers {given!r}", remedy=remedy)
    match given:
        case None:
            return Workers()
        case Workers():
            return given
        case bool():
            pass
        case int() if given == 1:
            return Workers()
        case int() if given > 1:
            return ProcessWorkers(given, memory)
        case str():
            return DaskWorkers(given)
        case Executor():
            return ExecutorWorkers(given)
        case _:
            pass
    need = "must be a number of processes, the address of a Dask scheduler, or a concurrent.futures.Executor"
    raise OptionError("workers", need, got=repr(given))
