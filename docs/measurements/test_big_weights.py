"""What a module of 25 M weights costs: the time to read and to copy it, and the memory, in a process of its own.

The limits stand beside the figures; time is not asserted. Run with `-s` to see them.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.ir.upstream.dense import dense_of
from qmlir.ir.weights import WeightsAttr

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc"),
]

TENSORS = 200
ELEMENTS = 25_000_000

LIMITS = {"parse": 2.0, "memory": 200.0, "clone": 0.1}
"""Of a module whose weights lie in a side file: seconds, MB, seconds."""

MEASURE = """
import json, sys, time
import qmlir
from qmlir.compiler import make_context, verify
from qmlir.dialects import nn, weights  # what every program has loaded already

def peak():  # MB; getrusage counts what the process was before it became this program
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

make_context().get_optional_op("arith.constant")
before, start = peak(), time.perf_counter()
module = qmlir.load(sys.argv[1])
parse = time.perf_counter() - start
start = time.perf_counter()
clone = module.clone()
cloned = time.perf_counter() - start
start = time.perf_counter()
assert clone.is_structurally_equivalent(module)
equal = time.perf_counter() - start
json.dump({"parse": parse, "memory": peak() - before, "clone": cloned, "equal": equal}, sys.stdout)
"""


def big_module(*, upstream: bool) -> ModuleOp:
    """A function of 200 constants, 25 M floats in all: ours, or upstream's."""
    from xdsl.dialects import arith

    block = Block()
    values = np.random.default_rng(0).standard_normal((TENSORS, ELEMENTS // TENSORS), np.float32)
    for each in values:
        weights = WeightsAttr(each.reshape(125, 1000))
        ours = ConstantOp(weights)
        block.add_op(arith.ConstantOp(dense_of(ours.y.type, weights.array)) if upstream else ours)
    block.add_op(func.ReturnOp())
    return ModuleOp([func.FuncOp("main", ([], []), Region(block))])


def measured(path: Path) -> dict[str, float]:
    command = [sys.executable, "-c", MEASURE, str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("form", ["file", "resource", "inline"])
def test_twenty_five_million_weights(form: str, tmp_path: Path) -> None:
    path = tmp_path / "big.mlir"
    qmlir.save(big_module(upstream=form != "file"), path, weights=form)
    found = measured(path)
    units = {"parse": "s", "memory": "MB", "clone": "s", "equal": "s"}
    limits = LIMITS if form == "file" else {}
    figures = (
        f"{what} {value:.3g} {units[what]}" + (f" (limit {limits[what]:g})" if what in limits else "")
        for what, value in found.items()
    )
    sys.stdout.write(f"\n25 M weights in 200 tensors, {form:8s}: {', '.join(figures)}\n")
