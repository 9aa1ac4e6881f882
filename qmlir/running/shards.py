"""Profiles over shards of the samples, on workers.

A profile depends neither on the order of the samples nor on how they are split, so that workers profile shards, and the
merged profile has the bytes of a serial one. Samples of `qmlir.read_samples` are read by the workers, from the same
paths; other samples are sent to them. They run the machine code that this process has compiled; a worker whose
processor lacks its features refuses to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.running.executors import Progress, Workers
from qmlir.samples.files import Samples

if TYPE_CHECKING:
    from qmlir.backends.cpu.jit import Executable
    from qmlir.profiles.profile import Profile
    from qmlir.running.profiler import Profiler

SHARDS = 8
"""Shards for each worker, so that workers of unequal speed end together."""

LARGEST = 32
"""The most samples of a shard; also its size where the number of samples is not known."""


def profile_in_shards(
    profiler: "Profiler", executable: "Executable", samples: Iterable[Any], workers: Workers, done: Progress | None
) -> "Profile":
    """Returns a profile over samples, which workers learn in shards; it has no samples if there are none.

    Args:
        profiler: Counts values.
        executable: The compiled network with observers' results.
        samples: The samples, in order.
        workers: Those that profile shards.
        done: Is called with the number of samples that are done.
    """
    work = _Work(profiler, executable, samples if isinstance(samples, Samples) else None)
    count = len(samples) if isinstance(samples, Samples | list | tuple) else None
    size = shard_size(count, workers)

    def said(shards: int) -> None:
        if done is not None:
            done(min(shards * size, count or shards * size))

    found = profiler.empty()
    for part in workers.map(_profiled, work, _shards(samples, size), said):
        found.merge(part)
    return found


def shard_size(count: int | None, workers: Workers) -> int:
    """Returns how many samples a shard has, of `count`; None if the number is not known."""
    return LARGEST if count is None else min(LARGEST, max(1, -(-count // (SHARDS * workers.count))))


def _shards(samples: Iterable[Any], size: int) -> Iterator[tuple[int, Any]]:
    """Yields shards of samples: the number of the first sample, and the samples; of `Samples`, only how many."""
    if isinstance(samples, Samples):
        yield from ((start, min(size, len(samples) - start)) for start in range(0, len(samples), size))
        return
    rest, start = iter(samples), 0
    while shard := list(islice(rest, size)):
        yield start, shard
        start += len(shard)


def text_of(network: ModuleOp) -> str:
    """Returns a network as text with all of its weights, which workers read."""
    return module_text(network, WeightsMode.INLINE)


def network_of(text: str) -> ModuleOp:
    """Returns the network of a text that `text_of` made."""
    return parse_text(make_context(), text, "a network for workers")


@dataclass(frozen=True)
class _Work:
    """What all shards of a profile need.

    profiler    counts values
    executable  the compiled network: workers run this machine code, so that their floats have the bits of ours
    samples     the samples, if workers read them; else shards hold them
    """

    profiler: "Profiler"
    executable: "Executable"
    samples: Samples | None


def _profiled(work: _Work, shard: tuple[int, Any]) -> "Profile":
    """Returns the profile of a shard; a worker has one thread for each task."""
    start, taken = shard
    if work.samples is not None:
        taken = work.samples.of(work.samples.chosen[start : start + taken])
    return work.profiler.profile(work.executable, taken, threads=1, first=start)
