"""The threads that share the loops of compiled networks: a pool, written in LLVM IR, one a process.

A network that is compiled for several threads calls

    qmlir.pool2.run(body, args, items, threads)

for each loop that is worth it (transforms/loops/share_items.py). The function returns when `body(args, s, begin, end)`
has run on all of the items [0, items). There are as many shares as threads, at most one more than there are workers:
share s of n is [items * s div n, items * (s + 1) div n), and has scratch memory of its own. No item depends on another,
so neither the results nor their bits depend on n, nor on who computes what.

The text is part of each object file. Its symbols are weak: a linker keeps one copy of each, so that all networks of a
program share one pool; the JIT loads one copy for the process (`run_address`) and points every executable to it. The 2
in the names is the version of what follows: objects of another version have a pool of their own.

**Who gets the pool.** `owner` is 1 while a call has the pool. A call that finds it taken does not wait: it computes all
items in its own thread. Calls side by side keep processors busy anyway, none of them waits for another's loop, and
nothing can deadlock. At its next loop the call asks again.

**A loop.** The caller, now the owner, writes the job, sets `pending` to the number of shares beyond its own, and makes
the ticket in a worker's slot odd for each of them. Who makes a ticket even again, by a compare-and-exchange, has that
share: the worker when it sees the ticket, or the owner when it has computed share 0 and finds that a worker has not
begun. So the owner waits only for shares that are being computed, never for a thread that sleeps or has no processor.
After its share a worker subtracts 1 from `pending`; at 0 the owner gives the pool back. Only who has a share reads the
job, and the owner returns when all shares are done: nobody reads a job while it is written, or arguments on a stack
that is gone, or runs code of a network that nobody calls any more.

**Order of memory.** Tickets are stored sequentially consistent (a release) and exchanged with acquire: the worker sees
the job, the arguments and all that the caller wrote before. `pending` is subtracted from sequentially consistent (a
release; the subtractions of several workers form one release sequence) and read with acquire: the owner sees all
results. `owner` is taken with acquire and given back with release: the next owner sees the pool as it was left.

**Sleep.** Who waits looks for SPINS rounds, then sleeps on a condition variable. A worker that goes to sleep locks its
mutex, stores 1 to `asleep`, and only then looks at its ticket once more before it waits. The owner stores the ticket,
and only then looks at `asleep`. All four are sequentially consistent, so they happen in one order, in which one of the
two looks comes after both stores. If it is the worker's, the worker sees the ticket and does not wait. If it is the
owner's, the owner sees `asleep` and locks the mutex, which the worker holds until it waits, so the signal meets a
worker that waits. No wakeup is lost. `pending` and `waiting` work alike, with the roles exchanged. A signal that comes
late, when its share is taken or its loop is over, wakes somebody who looks for some rounds again.

**Workers** are made by the owner when a loop wants more than there are, and stay until the process ends. Each has a
stack of STACK bytes and takes no signals: these remain with the threads of the program. If the system gives no more
threads, loops go on with those there are. After a fork the child has none of them: a handler empties its copy of the
pool, and the child's next loop makes new ones.
"""

import ctypes
import platform
import signal
from functools import cache
from threading import Lock

from qmlir.backends.cpu.llvm import LoadedObject, Machine, compile_object
from qmlir.errors import UnsupportedError
from qmlir.ir.signature import MOST_THREADS, RUN_SHARES

SPINS = 2000
"""Rounds that a thread looks for work, or for the end of it, before it sleeps: some 70 µs on a processor of 2021."""

STACK = 1 << 20
"""Bytes of stack of a worker."""

PAUSES = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}
"""The instruction for a loop that waits, by architecture, and its declaration; elsewhere there is none."""


LINUX_SET_MASK = 2
"""SIG_SETMASK of Linux on all of its architectures that code is generated for."""


def pool_text(machine: Machine | None = None) -> str:
    """The LLVM IR text of the pool, for the architecture and the system of a machine, or of this process.

    Raises:
        UnsupportedError: The system has no POSIX threads.
    """
    if machine is not None and machine.triple:  # all of them are of Linux
        architecture, set_mask = machine.architecture, LINUX_SET_MASK
    elif hasattr(signal, "pthread_sigmask"):
        architecture = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
        set_mask = int(signal.SIG_SETMASK)
    else:
        raise UnsupportedError("several threads need a system with POSIX threads; compile with threads=1")
    pause, declaration = PAUSES.get(architecture, ("", ""))
    text = TEXT.replace("@POOL.", f"@{RUN_SHARES.removesuffix('run')}")
    values = {
        "MOST_WORKERS": MOST_THREADS - 1,
        "SPINS": SPINS,
        "STACK": STACK,
        "SET_MASK": set_mask,
        "PAUSE": pause,
        "DECLARE_PAUSE": declaration,
    }
    for name, value in values.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def run_address() -> int:
    """The address of `qmlir.pool1.run` in this process; the first call compiles and loads the pool."""
    with _LOADING:  # two threads that compile at once want the same pool
        return _loaded().address


@cache
def _loaded() -> LoadedObject:
    """The loaded pool; it stays until the process ends, because workers run its code and a fork calls it."""
    loaded = LoadedObject(compile_object(pool_text(), Machine.host()), RUN_SHARES)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))  # not even the interpreter's exit frees it
    return loaded


_LOADING = Lock()


TEXT = """
; A slot of a worker: its ticket, whether it is asleep, and the mutex and the condition variable that it sleeps on. The
; sizes fit every system's mutexes and condition variables; a worker's words have a cache line to themselves.
%qmlir.slot = type { i64, i64, [48 x i8], [128 x i8], [128 x i8] }
; The job: body, args, items, sharers.
%qmlir.job = type { ptr, ptr, i64, i64 }

@POOL.owner = weak_odr global i64 0, align 64
@POOL.workers = weak_odr global i64 0, align 8
@POOL.most = weak_odr global i64 <MOST_WORKERS>, align 8
@POOL.watches_forks = weak_odr global i64 0, align 8
@POOL.job = weak_odr global %qmlir.job zeroinitializer, align 64
@POOL.pending = weak_odr global i64 0, align 64
@POOL.waiting = weak_odr global i64 0, align 64
@POOL.mutex = weak_odr global [128 x i8] zeroinitializer, align 64
@POOL.done = weak_odr global [128 x i8] zeroinitializer, align 64
@POOL.slots = weak_odr global [<MOST_WORKERS> x %qmlir.slot] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
; glibc has the first in a static library only, which a weak symbol does not ask for, and the second in libc.so.
declare extern_weak i32 @pthread_atfork(ptr, ptr, ptr)
declare extern_weak i32 @__register_atfork(ptr, ptr, ptr, ptr)
<DECLARE_PAUSE>

; Runs body(args, share, begin, end) on shares of [0, items) that cover it, in up to `threads` threads; see above.
define weak_odr void @POOL.run(ptr %body, ptr %args, i64 %items, i64 %threads) noinline nounwind {
entry:
  %claim = cmpxchg ptr @POOL.owner, i64 0, i64 1 acquire monotonic
  %claimed = extractvalue { i64, i1 } %claim, 1
  br i1 %claimed, label %gather, label %alone
gather:
  %wanted = sub i64 %threads, 1
  %have = call i64 @POOL.gather(i64 %wanted)
  %some = icmp sgt i64 %have, 0
  br i1 %some, label %write, label %give_up
give_up:
  store atomic i64 0, ptr @POOL.owner release, align 8
  br label %alone
alone:
  call void %body(ptr %args, i64 0, i64 0, i64 %items)
  ret void
write:
  %sharers = add i64 %have, 1
  store ptr %body, ptr @POOL.job
  store ptr %args, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 1)
  store i64 %items, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 2)
  store i64 %sharers, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 3)
  store atomic i64 %have, ptr @POOL.pending monotonic, align 8
  br label %post
post:
  %i = phi i64 [ 0, %write ], [ %next, %posted ]
  %slot = getelementptr [<MOST_WORKERS> x %qmlir.slot], ptr @POOL.slots, i64 0, i64 %i
  %before = load atomic i64, ptr %slot monotonic, align 8
  %ticket = add i64 %before, 1
  store atomic i64 %ticket, ptr %slot seq_cst, align 8
  %asleep = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 1
  %sleeps = load atomic i64, ptr %asleep seq_cst, align 8
  %is_asleep = icmp ne i64 %sleeps, 0
  br i1 %is_asleep, label %wake, label %posted
wake:
  %mutex = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 3
  %condition = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 4
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %posted
posted:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %have
  br i1 %more, label %post, label %own
own:
  %end = sdiv i64 %items, %sharers
  call void %body(ptr %args, i64 0, i64 0, i64 %end)
  br label %offer
offer:
  %o = phi i64 [ 0, %own ], [ %o_next, %offered ]
  %offer.slot = getelementptr [<MOST_WORKERS> x %qmlir.slot], ptr @POOL.slots, i64 0, i64 %o
  %o_next = add i64 %o, 1
  %mine = call i1 @POOL.take(ptr %offer.slot)
  br i1 %mine, label %help, label %offered
help:
  call void @POOL.compute(i64 %o_next)
  %helped = atomicrmw sub ptr @POOL.pending, i64 1 seq_cst
  br label %offered
offered:
  %others = icmp slt i64 %o_next, %have
  br i1 %others, label %offer, label %look
look:
  %spins = phi i64 [ 0, %offered ], [ %round, %pause ]
  %left = load atomic i64, ptr @POOL.pending acquire, align 8
  %finished = icmp eq i64 %left, 0
  br i1 %finished, label %leave, label %pause
pause:
  <PAUSE>
  %round = add i64 %spins, 1
  %patient = icmp slt i64 %round, <SPINS>
  br i1 %patient, label %look, label %rest
rest:
  call i32 @pthread_mutex_lock(ptr @POOL.mutex)
  store atomic i64 1, ptr @POOL.waiting seq_cst, align 8
  br label %check
check:
  %still = load atomic i64, ptr @POOL.pending seq_cst, align 8
  %over = icmp eq i64 %still, 0
  br i1 %over, label %rise, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @POOL.done, ptr @POOL.mutex)
  br label %check
rise:
  store atomic i64 0, ptr @POOL.waiting monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr @POOL.mutex)
  br label %leave
leave:
  store atomic i64 0, ptr @POOL.owner release, align 8
  ret void
}

; Takes the share that is posted in a slot: whether there is one, and nobody else has taken it.
define weak_odr i1 @POOL.take(ptr %slot) noinline nounwind {
entry:
  %ticket = load atomic i64, ptr %slot monotonic, align 8
  %odd = and i64 %ticket, 1
  %posted = icmp ne i64 %odd, 0
  br i1 %posted, label %try, label %return
try:
  %even = add i64 %ticket, 1
  %exchange = cmpxchg ptr %slot, i64 %ticket, i64 %even acquire monotonic
  %taken = extractvalue { i64, i1 } %exchange, 1
  br label %return
return:
  %mine = phi i1 [ false, %entry ], [ %taken, %try ]
  ret i1 %mine
}

; Computes share %s of the job, which the caller has taken.
define weak_odr void @POOL.compute(i64 %s) noinline nounwind {
  %body = load ptr, ptr @POOL.job
  %args = load ptr, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 1)
  %items = load i64, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 2)
  %sharers = load i64, ptr getelementptr (%qmlir.job, ptr @POOL.job, i64 0, i32 3)
  %after = add i64 %s, 1
  %b = mul i64 %items, %s
  %e = mul i64 %items, %after
  %begin = sdiv i64 %b, %sharers
  %end = sdiv i64 %e, %sharers
  call void %body(ptr %args, i64 %s, i64 %begin, i64 %end)
  ret void
}

; The life of the worker whose slot is given.
define weak_odr ptr @POOL.work(ptr %slot) noinline nounwind {
entry:
  %first = ptrtoint ptr @POOL.slots to i64
  %own = ptrtoint ptr %slot to i64
  %distance = sub i64 %own, %first
  %number = sdiv i64 %distance, ptrtoint (ptr getelementptr (%qmlir.slot, ptr null, i64 1) to i64)
  %s = add i64 %number, 1
  %asleep = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 1
  %mutex = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 3
  %condition = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 4
  br label %idle
idle:
  br label %look
look:
  %spins = phi i64 [ 0, %idle ], [ %round, %pause ]
  %taken = call i1 @POOL.take(ptr %slot)
  br i1 %taken, label %compute, label %pause
pause:
  <PAUSE>
  %round = add i64 %spins, 1
  %patient = icmp slt i64 %round, <SPINS>
  br i1 %patient, label %look, label %rest
rest:
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %asleep seq_cst, align 8
  %ticket = load atomic i64, ptr %slot seq_cst, align 8
  %odd = and i64 %ticket, 1
  %posted = icmp ne i64 %odd, 0
  br i1 %posted, label %rise, label %wait
wait:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %rise
rise:
  store atomic i64 0, ptr %asleep monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %idle
compute:
  call void @POOL.compute(i64 %s)
  %left = atomicrmw sub ptr @POOL.pending, i64 1 seq_cst
  %is_last = icmp eq i64 %left, 1
  br i1 %is_last, label %last, label %idle
last:
  %waits = load atomic i64, ptr @POOL.waiting seq_cst, align 8
  %is_waiting = icmp ne i64 %waits, 0
  br i1 %is_waiting, label %tell, label %idle
tell:
  call i32 @pthread_mutex_lock(ptr @POOL.mutex)
  call i32 @pthread_cond_signal(ptr @POOL.done)
  call i32 @pthread_mutex_unlock(ptr @POOL.mutex)
  br label %idle
}

; The owner wants workers: makes those that are missing, and returns how many of those wanted there are.
define weak_odr i64 @POOL.gather(i64 %wanted) noinline nounwind {
entry:
  %most = load i64, ptr @POOL.most
  %allowed = icmp slt i64 %wanted, %most
  %goal = select i1 %allowed, i64 %wanted, i64 %most
  %old = load i64, ptr @POOL.workers
  %enough = icmp sle i64 %goal, %old
  br i1 %enough, label %return, label %prepare
prepare:
  %attributes = alloca [256 x i8], align 16
  %all = alloca [256 x i8], align 16
  %mask = alloca [256 x i8], align 16
  %thread = alloca ptr, align 8
  call void @POOL.watch_forks()
  %none = icmp eq i64 %old, 0
  br i1 %none, label %first, label %ready
first:
  call i32 @pthread_mutex_init(ptr @POOL.mutex, ptr null)
  call i32 @pthread_cond_init(ptr @POOL.done, ptr null)
  br label %ready
ready:
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 <STACK>)
  call i32 @sigfillset(ptr %all)
  call i32 @pthread_sigmask(i32 <SET_MASK>, ptr %all, ptr %mask)
  br label %make
make:
  %count = phi i64 [ %old, %ready ], [ %grown, %made ]
  %slot = getelementptr [<MOST_WORKERS> x %qmlir.slot], ptr @POOL.slots, i64 0, i64 %count
  %asleep = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 1
  %mutex = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 3
  %condition = getelementptr %qmlir.slot, ptr %slot, i64 0, i32 4
  store atomic i64 0, ptr %slot monotonic, align 8
  store atomic i64 0, ptr %asleep monotonic, align 8
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  %failed = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @POOL.work, ptr %slot)
  %is_made = icmp eq i32 %failed, 0
  br i1 %is_made, label %made, label %refused
made:
  %handle = load ptr, ptr %thread
  call i32 @pthread_detach(ptr %handle)
  %grown = add i64 %count, 1
  store i64 %grown, ptr @POOL.workers
  %missing = icmp slt i64 %grown, %goal
  br i1 %missing, label %make, label %restore
refused:
  store i64 %count, ptr @POOL.most
  br label %restore
restore:
  %total = phi i64 [ %grown, %made ], [ %count, %refused ]
  call i32 @pthread_sigmask(i32 <SET_MASK>, ptr %mask, ptr null)
  call i32 @pthread_attr_destroy(ptr %attributes)
  br label %return
return:
  %available = phi i64 [ %goal, %entry ], [ %total, %restore ]
  ret i64 %available
}

; Has a child of this process begin with an empty pool; once a process.
define weak_odr void @POOL.watch_forks() noinline nounwind {
entry:
  %watched = load i64, ptr @POOL.watches_forks
  %done = icmp ne i64 %watched, 0
  br i1 %done, label %return, label %watch
watch:
  store i64 1, ptr @POOL.watches_forks
  %posix = icmp ne ptr @pthread_atfork, null
  br i1 %posix, label %by_posix, label %otherwise
by_posix:
  call i32 @pthread_atfork(ptr null, ptr null, ptr @POOL.begin_anew)
  br label %return
otherwise:
  %glibc = icmp ne ptr @__register_atfork, null
  br i1 %glibc, label %by_glibc, label %return
by_glibc:
  call i32 @__register_atfork(ptr null, ptr null, ptr @POOL.begin_anew, ptr null)
  br label %return
return:
  ret void
}

; In the child of a fork, which has one thread, and no worker.
define weak_odr void @POOL.begin_anew() noinline nounwind {
  store i64 0, ptr @POOL.workers
  store i64 <MOST_WORKERS>, ptr @POOL.most
  store atomic i64 0, ptr @POOL.waiting monotonic, align 8
  store atomic i64 0, ptr @POOL.owner release, align 8
  ret void
}
"""
