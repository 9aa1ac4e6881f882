"""Imports one node by qmlir's own tables of operators: by a fold if all inputs are constant, else by a converter.

A fold computes the outputs with numpy; a converter adds nn operations. Both return the value of each output; the
operations that a converter adds wait in the node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from qmlir.frontends.builder import Node
from qmlir.frontends.onnx import qonnx, qoperator, quantization
from qmlir.frontends.onnx.attributes import AttributeValue
from qmlir.frontends.onnx.converters import Signature, converts, folds
from qmlir.frontends.onnx.folding import evaluated
from qmlir.frontends.onnx.quantization import RESHAPING, prepared
from qmlir.frontends.values import Constant, Dequantized, Refusal, Value
from qmlir.ir.budget import Budget
from qmlir.ir.interfaces import Array
from qmlir.ir.memory import shortage

QUANTIZED = frozenset(family.__name__ for family in (qonnx, qoperator, quantization))
"""Modules whose converters take tensors of quantized types; other converters take the inputs from `prepared`."""


def convert(
    node: Node,
    domain: str,
    operator: str,
    version: int,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Sequence[Value]:
    """Folds or converts a node, and returns the value of each output.

    Raises:
        Refusal: The operator has no converter, or the converter refuses the node.
        NodeError: The node breaks a rule of ONNX.
    """
    constant = bool(inputs) and all(i is None or isinstance(i, Constant) for i in inputs)
    if constant and (folded := _folded(node, domain, operator, version, inputs, attributes)) is not None:
        return folded
    converter = converts.select(domain, operator, version)
    if converter is None:
        older = version and converts.select(domain, operator, 1 << 30)
        raise Refusal(f"qmlir knows no {node.kind}" + (f" of operator set {version}" if older else ""))
    for x in inputs:
        if isinstance(x, SSAValue):
            node.shape(x)
    if converter.function.__module__ not in QUANTIZED:
        inputs = prepared(node, operator, inputs)
    results = _call(converter, node, inputs, attributes, node)
    if constant and (known := evaluated(node.pending, results, node.outputs, node.builder.budget)) is not None:
        node.discard()
        return known
    return results


def _folded(
    node: Node,
    domain: str,
    operator: str,
    version: int,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Sequence[Value] | None:
    """Computes the outputs of a node on constants by its fold; None if the operator has no fold or the fold refuses."""
    fold = folds.select(domain, operator, version)
    if fold is None:
        return None
    try:
        if (moved := _move_stored(fold, node, operator, inputs, attributes)) is not None:
            return [moved]
        arrays = [i.array if isinstance(i, Constant) else None for i in inputs]
        results = [np.asarray(a) for a in _call(fold, node, arrays, attributes, node.builder.budget)]
        for result in results:
            if result.base is None and not any(result is a for a in arrays):
                result.flags.writeable = False  # no other code holds the array, so the IR need not copy it
        return [Constant(a, o) for a, o in zip(results, node.outputs, strict=False)]
    except Refusal:
        return None


def _move_stored(
    fold: Signature,
    node: Node,
    operator: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue],
) -> Constant | None:
    """Reshapes or transposes a quantized constant as stored integers; None for other constants or operators."""
    first = inputs[0]
    if not isinstance(first, Dequantized) or operator not in (*RESHAPING, "Transpose"):
        return None
    # The fold only checks the node and computes the new shape, so it need not see the elements.
    like = np.broadcast_to(np.int8(0), first.shape)
    rest = [i.array if isinstance(i, Constant) else None for i in inputs[1:]]
    moved = np.asarray(_call(fold, node, [like, *rest], attributes, node.builder.budget)[0])
    if operator in RESHAPING:
        return first.reshaped(moved.shape)
    permutation = cast(Sequence[int], attributes.get("perm", range(like.ndim)[::-1]))
    return first.transposed(permutation)


def _call(
    signature: Signature,
    node: Node,
    inputs: Sequence[Value | Array | None],
    attributes: Mapping[str, AttributeValue],
    first: Node | Budget,
) -> Sequence[Value]:
    """Checks a node against a signature and calls its converter or fold; numpy's errors become NodeErrors."""
    signature.check(node, inputs, attributes)
    try:
        results: Any = signature.function(first, *inputs, **attributes)
    except MemoryError:
        raise shortage(f"{node.file}: {node.kind}", node.called()) from None
    except (VerifyException, ValueError, IndexError, TypeError, ArithmeticError) as error:
        raise node.error("its inputs and attributes must fit", " ".join(str(error).split())) from None
    return cast(Sequence[Value], results) if isinstance(results, tuple) else [results]
