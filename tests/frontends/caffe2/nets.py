"""Makes Caffe2 nets, and runs them in the reference and on the CPU."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import qmlir
from qmlir.compiler import Pipeline, main_function
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.caffe2.schema import NET
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.signature import signature_of
from qmlir.stages import IMPORTED

Array = np.ndarray[Any, Any]

U8 = "!quant.uniform<u8:f32,{}:{}>"


def add(net: Any, kind: str, inputs: str, outputs: str, /, **arguments: Any) -> None:
    """Adds an operator; inputs and outputs are names between spaces.

    An argument is a number, text or bytes, a list of numbers, a list of bytes, or a net.
    """
    op = net.op.add(type=kind, input=inputs.split(), output=outputs.split())
    for name, value in arguments.items():
        arg = op.arg.add(name=name)
        match value:
            case int():
                arg.i = int(value)
            case float():
                arg.f = value
            case str() | bytes():
                arg.s = value if isinstance(value, bytes) else value.encode()
            case np.ndarray():
                (arg.floats if value.dtype.kind == "f" else arg.ints).extend(value.reshape(-1).tolist())
            case list() | tuple():
                items: list[Any] = list(value)
                if items and isinstance(items[0], bytes):
                    arg.strings.extend(items)
                else:
                    (arg.floats if any(isinstance(v, float) for v in items) else arg.ints).extend(items)
            case _:
                arg.n.CopyFrom(value)


def made(*operators: tuple[Any, ...], outputs: str = "", inputs: str = "") -> bytes:
    """Returns a net of operators (kind, inputs, outputs, arguments)."""
    net = NET(name="net")
    for kind, read, defined, *arguments in operators:
        add(net, kind, read, defined, **(arguments[0] if arguments else {}))
    net.external_input.extend(inputs.split())
    net.external_output.extend(outputs.split())
    return net.SerializeToString()


def weights(**arrays: Array) -> list[tuple[Any, ...]]:
    """Returns operators that make tensors of the arrays."""
    kinds = {"float32": "GivenTensorFill", "int32": "GivenTensorIntFill", "int64": "GivenTensorInt64Fill"}
    return [(kinds[a.dtype.name], "", name, {"shape": list(a.shape), "values": a}) for name, a in arrays.items()]


def stored(name: str, array: Array, scale: float, zero_point: int) -> tuple[Any, ...]:
    """Returns an operator that makes a tensor of stored integers: uint8 or int32."""
    given = {"shape": list(array.shape), "Y_scale": float(scale), "Y_zero_point": int(zero_point)}
    if array.dtype == np.uint8:
        return "Int8GivenTensorFill", "", name, {**given, "values": array.tobytes()}
    return "Int8GivenIntTensorFill", "", name, {**given, "values": array.astype(np.int64)}


def shapes_of(data: Mapping[str, Array]) -> dict[str, str]:
    """Returns the shapes of float or integer inputs."""
    elements = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "i1", "uint8": "ui8", "float16": "f16"}
    return {n: "".join(f"{d}x" for d in a.shape) + elements[a.dtype.name] for n, a in data.items()}


def run(
    net: bytes, data: Mapping[str, Array], init: bytes | None = None, shapes: Mapping[str, str] | None = None
) -> list[Array]:
    """Imports a net, and returns its results by the reference after comparing them with those of the CPU."""
    module = load_caffe2(net, init, shapes={**shapes_of(data), **(shapes or {})})
    module.verify()
    return results_of(module, data)


def results_of(module: Any, data: Mapping[str, Array]) -> list[Array]:
    """Returns a module's results by the reference, after comparing them with those of the CPU."""
    assert not opaque_report(module)
    module = Pipeline(*IMPORTED)(module)
    signature = signature_of(main_function(module))
    given = {s.name: np.asarray(data[s.name]) for s in signature.inputs}
    expected, found = (_listed(f(given)) for f in (qmlir.reference(module), qmlir.compile(module, cache=False)))
    for a, b in zip(expected, found, strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * float(np.abs(a).max(initial=0)))
        else:
            np.testing.assert_array_equal(b, a)
    return expected


def _listed(results: Any) -> list[Array]:
    if isinstance(results, Mapping):
        return [np.asarray(v) for v in results.values()]
    return [np.asarray(v) for v in (results if isinstance(results, Sequence) else [results])]
