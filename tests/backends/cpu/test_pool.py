"""The pool of threads: every item once, whoever asks, whatever happens around it; and the bits of one thread.

What may hang runs in a process of its own, which is given some minutes: a hang fails, a slow machine does not.
"""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.backends.cpu import pool
from qmlir.backends.cpu.llvm import LoadedObject, Machine, compile_object
from qmlir.dialects.loops import RUN_SHARES
from qmlir.errors import UnsupportedError
from tests.conftest import ROOT

Counts = npt.NDArray[np.int64]

PATIENCE = 300
"""Seconds after which a process counts as one that hangs."""

# Adds 1 to counts[i] for each item i, in loops that threads share.
COUNTING = """
define void @count(ptr %args, i64 %share, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %place = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @calls(ptr %counts, i64 %items, i64 %threads, i64 %times) {
entry:
  %frame = alloca ptr
  store ptr %counts, ptr %frame
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @RUN(ptr @count, ptr %frame, i64 %items, i64 %threads)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
""".replace("RUN", RUN_SHARES)


@cache
def _loaded() -> LoadedObject:
    """A program with a pool's text in it, as each object file has it, that the JIT points to the process's pool."""
    data = compile_object(COUNTING + pool.pool_text(), Machine.host())
    return LoadedObject(data, "calls", {RUN_SHARES: pool.run_address()})


def calls(counts: Counts, threads: int, times: int = 1) -> None:
    """Counts each item `times` times, in loops that `threads` threads share."""
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    prototype(_loaded().address)(counts.ctypes.data, counts.size, threads, times)


def run(body: Callable[[int, int, int, int], None], items: int, threads: int) -> None:
    """Runs a Python function on the shares of a loop."""
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    prototype = ctypes.CFUNCTYPE(None, callback, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    prototype(pool.run_address())(callback(body), None, items, threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("items", [1, 2, 3, 5, 8, 1000])
def test_every_item_is_computed_once_a_loop(items: int, threads: int) -> None:
    counts = np.zeros(items, np.int64)
    calls(counts, threads, times=500)
    assert (counts == 500).all()


def test_loops_of_many_threads_side_by_side() -> None:
    """Some get the pool, others compute by themselves; all of them finish, with all items."""

    def loops(threads: int) -> bool:
        counts = np.zeros(97, np.int64)
        calls(counts, threads, times=2000)
        return bool((counts == 2000).all())

    with ThreadPoolExecutor(6) as callers:
        assert all(callers.map(loops, [2, 3, 4, 2, 3, 4] * 4))


def test_shares_are_ranges_that_the_number_of_sharers_fixes() -> None:
    """Share s of n: [items * s div n, items * (s + 1) div n), in any order and any thread."""
    seen: list[tuple[int, int, int]] = []
    for items, threads, shares in (
        (7, 1, [(0, 7)]),
        (7, 2, [(0, 3), (3, 7)]),
        (7, 3, [(0, 2), (2, 4), (4, 7)]),
        (2, 3, [(0, 0), (0, 1), (1, 2)]),
    ):
        seen.clear()
        run(lambda _, share, begin, end: seen.append((share, begin, end)), items, threads)
        assert sorted(seen) == [(s, *part) for s, part in enumerate(shares)]


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_shares_are_computed_at_the_same_time(threads: int) -> None:
    """Each share waits until all have begun, in threads with the stack that kernels may rely on."""
    barrier = threading.Barrier(threads)
    stacks: list[int] = []
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_void_p

    def meet(_args: int, _share: int, begin: int, _end: int) -> None:
        barrier.wait(PATIENCE)
        if begin and hasattr(libc, "pthread_getattr_np"):
            attributes, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
            libc.pthread_getattr_np(ctypes.c_void_p(libc.pthread_self()), attributes)
            libc.pthread_attr_getstacksize(attributes, ctypes.byref(size))
            stacks.append(size.value)

    run(meet, threads, threads)
    assert not barrier.broken
    assert all(size == pool.STACK for size in stacks)


def test_a_system_without_threads_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("signal.pthread_sigmask")
    with pytest.raises(UnsupportedError, match=r"POSIX threads; compile with threads=1"):
        pool.pool_text()


# ---------------------------------------------------------------------------------------------------------------
# Processes: forks, exits, garbage


NETWORK = """
func.func @main(%x: tensor<192x192xf32>) -> tensor<192x192xf32> {
  %a = nn.matmul %x, %x : tensor<192x192xf32>, tensor<192x192xf32> -> tensor<192x192xf32>
  %b = nn.add %a, %x : tensor<192x192xf32>, tensor<192x192xf32> -> tensor<192x192xf32>
  %c = nn.matmul %b, %x : tensor<192x192xf32>, tensor<192x192xf32> -> tensor<192x192xf32>
  %d = nn.sigmoid %c : tensor<192x192xf32> -> tensor<192x192xf32>
  func.return %d : tensor<192x192xf32>
}
"""

PROLOGUE = """
import gc, os, sys, threading
import numpy as np
import qmlir

path = sys.argv[1]
X = np.random.default_rng(0).standard_normal((192, 192)).astype(np.float32)
EXPECTED = qmlir.compile(path)(X)

def check(exe):
    assert (exe(X) == EXPECTED).all()

def workers():
    return len(os.listdir("/proc/self/task"))

exe = qmlir.compile(path, threads=3)
assert exe.uses_pool
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "net.mlir"
    path.write_text(NETWORK)
    return path


def process(program: str, network: Path, *, kept: bool = True) -> str:
    """Runs a program, after the prologue, in a process of its own, which has to end well; returns what it prints.

    The processes share code that is kept on disk, unless a program compares what it compiles.
    """
    command = [sys.executable, "-c", PROLOGUE + program, str(network)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if kept:
        environment["QMLIR_CACHE"] = str(network.parent / "kept")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_exit_behind_a_call(network: Path) -> None:
    """The workers still look for work when the interpreter frees its objects."""
    process("check(exe)", network)


def test_an_exit_beside_a_call(network: Path) -> None:
    program = """
def forever():
    while True:
        exe(X)

for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
check(exe)
"""
    process(program, network)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.slow
@linux
def test_executables_share_one_pool(network: Path) -> None:
    program = """
check(exe)
before = workers()
others = [qmlir.compile(path, threads=n) for n in (2, 3)]
for other in others:
    check(other)
assert workers() == before, (workers(), before)
check(qmlir.compile(path, threads=4))
assert workers() == before + 1, (workers(), before)
"""
    process(program, network)


@pytest.mark.slow
@linux
def test_one_thread_has_no_pool(network: Path) -> None:
    program = """
before = workers()
one = qmlir.compile(path, threads=1)
check(one)
assert not one.uses_pool and b"qmlir.pool" not in one.object and "qmlir.pool" not in one.llvm_ir
assert workers() == before
assert one.object == qmlir.compile(path).object
"""
    process(program, network, kept=False)


@forks
def test_a_fork_has_a_pool_of_its_own(network: Path) -> None:
    """The child has none of the workers; it makes its own, also when it forks again."""
    program = """
check(exe)

def child(depth):
    pid = os.fork()
    if pid == 0:
        try:
            check(exe)
            if depth:
                child(depth - 1)
            check(exe)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

child(1)
check(exe)
"""
    process(program, network)


@pytest.mark.slow
@forks
def test_a_fork_beside_calls(network: Path) -> None:
    """The child's copy of the pool is one that another thread had."""
    program = """
stop = False

def repeat():
    while not stop:
        check(exe)

callers = [threading.Thread(target=repeat) for _ in range(2)]
for caller in callers:
    caller.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        try:
            check(exe)
            check(exe)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for caller in callers:
    caller.join()
check(exe)
"""
    process(program, network)


def test_executables_are_freed_beside_calls(network: Path) -> None:
    program = """
stop = False
bad = []

def repeat():
    while not stop:
        if not (exe(X) == EXPECTED).all():
            bad.append(1)

caller = threading.Thread(target=repeat)
caller.start()
for _ in range(3):
    other = qmlir.compile(path, threads=2)
    check(other)
    del other
    gc.collect()
stop = True
caller.join()
assert not bad
"""
    process(program, network)


@linux
def test_workers_take_no_signals(network: Path) -> None:
    """Signals stay with the threads of the program; /proc shows what a thread blocks."""
    program = """
import re, signal
signal.pthread_sigmask(signal.SIG_SETMASK, [])
tasks = set(os.listdir("/proc/self/task"))
check(exe)
made = set(os.listdir("/proc/self/task")) - tasks
assert len(made) == 2, made
for task in made:
    blocked = int(re.search(r"SigBlk:\\s*(\\w+)", open(f"/proc/self/task/{task}/status").read())[1], 16)
    assert blocked >> (signal.SIGINT - 1) & 1 and blocked >> (signal.SIGTERM - 1) & 1, hex(blocked)
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
"""
    process(program, network)


@pytest.mark.slow
@linux
def test_a_system_that_gives_no_threads(network: Path) -> None:
    """Loops then go on with the threads that there are, here the caller's."""
    program = """
import resource
from tests.backends.cpu.test_pool import calls

counts = np.zeros(10, np.int64)
calls(counts, threads=1)
before = workers()
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 19), most))  # too little for another stack
calls(counts, threads=3, times=2)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert workers() == before
assert (counts == 3).all()
"""
    process(program, network)
