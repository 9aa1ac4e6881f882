"""Garbage is collected rarely while IR is built, and as before afterwards."""

import gc
from collections.abc import Generator
from threading import Barrier, Thread
from weakref import ref

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.nn import ConstantOp
from qmlir.ir.garbage import OBJECTS, WEIGHTS, collect_weights, collected_rarely


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_blocks_nest_and_an_error_restores_the_setting() -> None:
    @collected_rarely
    def outer() -> None:
        with collected_rarely:
            assert gc.get_threshold() == (OBJECTS, 10, 10)
        assert gc.get_threshold() == (OBJECTS, 10, 10)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        outer()
    assert gc.get_threshold() == (700, 10, 10)


def test_blocks_of_two_threads_that_overlap_restore_the_setting() -> None:
    inside, seen = Barrier(2), []

    def first() -> None:
        with collected_rarely:
            inside.wait()  # the other thread has entered
            inside.wait()
        seen.append(gc.get_threshold())  # the other thread is still inside
        inside.wait()

    def second() -> None:
        with collected_rarely:
            inside.wait()
            inside.wait()
            inside.wait()

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(OBJECTS, 10, 10)]
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [0, 10 * OBJECTS])
def test_a_process_that_collects_more_rarely_keeps_its_setting(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    with collected_rarely:
        assert gc.get_threshold()[0] == chosen
    assert gc.get_threshold()[0] == chosen


def test_networks_with_large_weights_do_not_wait_for_the_collector() -> None:
    def left(elements: int) -> bool:
        """Whether a network that nobody needs is still there once a step has left one like it."""
        network = ModuleOp([ConstantOp(np.zeros(elements, np.float32))])
        array = ref(network.body.block.first_op)
        like = network.clone()
        del network
        collect_weights(like)
        return array() is not None

    gc.set_threshold(1_000_000)
    assert left(16)
    assert not left(WEIGHTS // 4)
    gc.disable()
    try:
        assert left(WEIGHTS // 4)
    finally:
        gc.enable()
