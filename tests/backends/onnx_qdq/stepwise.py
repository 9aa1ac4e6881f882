"""A quantized network in onnxruntime against its exact meaning, operation by operation.

onnxruntime computes each operation in float32, where sums round: now and then a stored integer differs by one. Deep
networks can make more of that than one. So here each operation is evaluated on the integers that onnxruntime had
computed for its operands, and the result compared with onnxruntime's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import qmlir
from qmlir.compiler import main_function, to_integers
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.signature import signature_of
from tests.backends.onnx_qdq.runtime import session

Array = npt.NDArray[Any]


@dataclass
class Steps:
    """How far stored integers are apart.

    compared   how many there are
    differing  how many are not equal
    most       by how much at most
    """

    compared: int = 0
    differing: int = 0
    most: int = 0

    def include(self, other: "Steps") -> None:
        """Counts what another comparison found as well."""
        self.compared += other.compared
        self.differing += other.differing
        self.most = max(self.most, other.most)

    def add(self, a: Array, b: Array) -> None:
        difference = np.abs(a.astype(np.int64) - b.astype(np.int64))
        self.compared += difference.size
        self.differing += int(np.count_nonzero(difference))
        self.most = max(self.most, int(difference.max(initial=0)))


def showing_all(module: ModuleOp) -> ModuleOp:
    """The network with every quantized value among its results, as integers, after its own."""
    shown = module.clone()
    function = main_function(shown)
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    inner = [
        result
        for op in function.body.block.ops
        for result in op.results
        if is_quantized(result) and not isinstance(op, nn.ConstantOp) and result not in end.operands
    ]
    function.body.block.add_op(func.ReturnOp(*end.operands, *inner))
    end.detach()
    end.erase()
    function.res_attrs = None
    function.update_function_type()
    return shown


def compare(
    module: ModuleOp, path: Path, samples: Iterable[Array | Mapping[str, Array]], format: str = "onnx-qdq"
) -> Steps:
    """Compares every quantized value of a network; `path` is where the exported file goes."""
    shown = showing_all(module)
    qmlir.export(shown, path, format=format)
    loaded = session(path)
    integers = main_function(to_integers(shown))
    steps, signature = Steps(), signature_of(integers)
    for sample in samples:
        arrays = signature.arrays(sample)
        outputs = loaded.run(None, dict(zip((i.name for i in loaded.get_inputs()), arrays, strict=True)))
        _evaluate(integers, arrays, [np.asarray(y) for y in outputs], steps)
    return steps


def _evaluate(function: func.FuncOp, arrays: list[Array], theirs: list[Array], steps: Steps) -> None:
    end = function.body.block.last_op
    assert end is not None
    computed: dict[SSAValue, Array] = {}
    for operand, array in zip(end.operands, theirs, strict=True):
        if is_quantized(operand):
            cast = operand.owner
            stored, array = _sign_shifted(cast.input if isinstance(cast, StorageCastOp) else operand, array)
            computed[stored] = array
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, arrays, strict=True))
    for op in function.body.block.ops:
        if op is end:
            return
        results = getattr(op, "evaluate")(*(values[o] for o in op.operands))
        for value, array in zip(op.results, results, strict=True):
            given = computed.get(value)
            if given is None:
                values[value] = array
            else:  # bytes have no sign here, but in the file they do
                steps.add(array.view(given.dtype), given)
                values[value] = given.view(array.dtype)


def _sign_shifted(value: SSAValue, array: Array) -> tuple[SSAValue, Array]:
    """Of a result that only shifts integers to unsigned ones the integers that the network computes with."""
    shift = value.owner
    signed = np.arange(-128, 128)
    if not isinstance(shift, qint.LookupOp) or not np.array_equal(shift.table.array, signed.astype(np.int8) ^ -128):
        return value, array
    return shift.x, (array.view(np.int8) ^ -128).astype(np.int8)
