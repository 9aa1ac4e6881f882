"""Items of a kernel depend on no other item: any division of them among threads computes the same bits."""

import ctypes

import numpy as np
import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from qmlir.backends.cpu import build, emit, jit
from qmlir.backends.cpu.jit import Executable
from qmlir.dialects import nn
from qmlir.ir.context import make_context
from qmlir.ir.signature import RUN_SHARES, Signature, main_function, signature_of
from qmlir.ir.types import element_type_of
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass
from qmlir.transforms.loops.hoist_scratch import HoistScratchPass
from qmlir.transforms.loops.plan_memory import PlanMemoryPass
from qmlir.transforms.loops.share_items import ShareItemsPass
from tests.conftest import THOROUGH
from tests.lowering.both import Array, network, to_loops
from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_lowerings import NOT_RUN

RUN = [sample for sample in SAMPLES if str(sample) not in NOT_RUN]

FIRST = [*{sample.op: sample for sample in reversed(RUN)}.values()][::-1]
"""The first sample of each operation."""

Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


ORDERS = ("whole", "backwards")
_order = ""


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
def _in_order(body: int, args: int, items: int, threads: int) -> None:
    """In place of the pool: all items at once; or each by itself, the last one first, as far from that as can be."""
    if _order == "whole":
        Body(body)(args, 0, 0, items)
        return
    for item in reversed(range(items)):
        Body(body)(args, item % threads, item, item + 1)


@pytest.fixture(autouse=True)
def without_the_pools_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code calls the pool that this process has loaded; its text in each object file would be compiled for nothing."""
    monkeypatch.setattr(emit, "pool_text", lambda _: f"declare void @{RUN_SHARES}(ptr, ptr, i64, i64)\n")


def network_of(sample: Sample) -> ModuleOp:
    """A network of one operation."""
    arrays = sample.arrays(3)
    inputs, constants = arrays[: sample.inputs], arrays[sample.inputs :]

    def graph(*values: SSAValue) -> SSAValue:
        return sample.build([*values, *(nn.ConstantOp(c).y for c in constants)]).results[0]

    return network(graph, *(TensorType(element_type_of(x.dtype), x.shape) for x in inputs))


def shared(sample: Sample, threads: int) -> tuple[ModuleOp, Signature]:
    """A network of one operation in the llvm dialect, all of whose loops are shared."""
    module = network_of(sample)
    lowered = to_loops(module, verify=False)  # test_lowerings.py verifies it
    share = ShareItemsPass(threads=threads, least_work=1)
    for step in (share, HoistScratchPass(), PlanMemoryPass(), LoopsToLLVMPass()):
        step.apply(make_context(), lowered)
        lowered.verify()
    return lowered, signature_of(main_function(module))


def compiled(sample: Sample, threads: int) -> tuple[Executable, list[Array]]:
    """That network as machine code, and its inputs."""
    return build(*shared(sample, threads)), list(sample.arrays(3)[: sample.inputs])


def bits(results: list[Array]) -> list[bytes]:
    return [np.ascontiguousarray(result).tobytes() for result in results]


@pytest.mark.parametrize("sample", RUN if THOROUGH else FIRST, ids=str)
def test_items_in_any_order(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "run_address", lambda: ctypes.cast(_in_order, ctypes.c_void_p).value)
    executable, inputs = compiled(sample, 4)
    results: list[list[bytes]] = []
    for order in ORDERS:
        monkeypatch.setitem(globals(), "_order", order)
        results.append(bits(executable.run_in_order(inputs)))
    assert results[0] == results[1]


@pytest.mark.parametrize("sample", RUN[:: 24 if THOROUGH else 72], ids=str)
def test_any_number_of_threads(sample: Sample) -> None:
    plain, inputs = compiled(sample, 1)
    assert not plain.uses_pool
    expected = bits(plain.run_in_order(inputs))
    for threads in (2, 3, 4):
        several, _ = compiled(sample, threads)
        for _ in range(20):
            assert bits(several.run_in_order(inputs)) == expected, threads


@pytest.mark.slow
def test_samples_share_loops() -> None:
    """The tests above test something: many samples have a loop of several items."""
    chosen = [shared(sample, 4)[0] for sample in RUN[:: 12 if THOROUGH else 24]]
    names = [[op.sym_name.data for op in module.ops if isinstance(op, llvm.FuncOp)] for module in chosen]
    assert sum(RUN_SHARES in functions for functions in names) >= len(chosen) // 3
