"""Collects a profile over samples, several of them side by side.

A profile depends neither on the order of the samples nor on how they are split, so each thread fills a profile of its
own, and the profiles are merged. Threads pay because the network and the counting run in machine code, without the
interpreter's lock.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np

from qmlir.numerics import Array
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import Counter

LEAST_BYTES = 1 << 20
"""Bytes of the observed tensors of a sample below which handing it to a thread would take longer than computing it."""

MOST_BYTES = 1 << 29
"""Bytes that the observed tensors of all samples side by side may take; one sample may take more."""

Evaluate = Callable[[Sequence[Array]], Mapping[str, Array]]
"""Runs the network: inputs in order → the values of each observed tensor by its name; from any thread."""


def collect(
    samples: Iterable[Sequence[Array]],
    evaluate: Evaluate,
    empty: Callable[[], Profile],
    counter: Counter,
    bytes_each: int,
    threads: int | None = None,
    first: int = 0,
) -> Profile:
    """Returns the profile of a network over samples; it is the same for any number of threads.

    Args:
        samples: The network's inputs in order, for each sample; the caller's thread takes them from the iterator.
        evaluate: Runs the network on a sample.
        empty: Makes a profile without samples.
        counter: The way to count values.
        bytes_each: The bytes of all tensors that `evaluate` returns.
        threads: The number of samples side by side; by default as many as there are processors and memory for them.
        first: The number of the first sample, for errors.

    Raises:
        ProfileError: A tensor is not finite on a sample. The error is that of the first such sample.
    """
    found = empty()
    most = threads_for(bytes_each) if threads is None else threads
    if most == 1:
        together, held = max(1, LEAST_BYTES // max(1, bytes_each)), list[Mapping[str, Array]]()
        try:
            for sample in samples:
                if len(held) == together:
                    found.update_all(held, counter, number=first)
                    first, held = first + len(held), []
                held.append(evaluate([np.array(array) for array in sample]))
        finally:  # an error of a sample comes before those of the samples behind it
            if held:
                found.update_all(held, counter, number=first)
        return found

    idle: SimpleQueue[Profile] = SimpleQueue()
    parts = [found, *(empty() for _ in range(most - 1))]
    for part in parts:
        idle.put(part)
    failed: dict[int, BaseException] = {}

    def add(number: int, sample: Sequence[Array], part: Profile) -> None:
        try:
            part.update(evaluate(sample), counter, number=number)
        except BaseException as error:  # the caller's thread raises it
            failed[number] = error
        finally:
            idle.put(part)

    try:
        with ThreadPoolExecutor(most, "profile") as pool:  # at its end it waits for all samples that have begun
            for number, sample in enumerate(samples, first):
                part = idle.get()
                if failed:
                    break
                # The iterator may fill the same arrays again while the sample is computed.
                pool.submit(add, number, [np.array(array) for array in sample], part)
    finally:
        if failed:  # samples are begun in order, so that no sample before this one fails
            raise failed[min(failed)]
    for part in parts[1:]:
        found.merge(part)
    return found


def threads_for(bytes_each: int) -> int:
    """The number of samples to compute side by side, each with observed tensors of `bytes_each` bytes."""
    if bytes_each < LEAST_BYTES:
        return 1
    return max(1, min(processors(), MOST_BYTES // bytes_each))


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
