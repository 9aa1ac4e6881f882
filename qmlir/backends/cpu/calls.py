"""Calls from machine code to the operators that the running program defines (ir/own_operators.py).

An operator in C is called as it is (native.py). For an operator in Python, the code calls a function with a pointer to
each input and each result. That is a C function that ctypes makes, which shows the memory to the program's function as
arrays. An exception cannot pass through machine code: it is kept for the thread, and raised when the network's call
returns.
"""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, TensorType
from xdsl.ir import Attribute

from qmlir.backends.cpu.native import native_symbol, native_symbols
from qmlir.dialects.custom import attribute_values
from qmlir.errors import QmlirError
from qmlir.ir.own_operators import OwnOperator, required_operator
from qmlir.ir.types import dtype_of
from qmlir.numerics import Array

Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the element type of a tensor."""


class OwnCalls:
    """The C functions of a network's own operators, by symbol; they live as long as this object."""

    def __init__(self, functions: Mapping[str, Attribute]):
        """Makes the C functions.

        Args:
            functions: What each function is, as the lowering to loops lists them on the module.

        Raises:
            QmlirError: The program does not define an operator.
        """
        self._failed = threading.local()
        self.symbols = native_symbols(functions)
        self.in_python = sorted({_operator(e).called for e in functions.values() if native_symbol(e) is None})
        self._native = [entry for entry in functions.values() if native_symbol(entry) is not None]
        self._functions = {s: self._function(entry) for s, entry in functions.items() if native_symbol(entry) is None}

    def addresses(self) -> dict[str, int]:
        """Returns the address of each function.

        Raises:
            QmlirError: The program does not define an operator in C that the code calls.
        """
        own = {s: ctypes.cast(f, ctypes.c_void_p).value or 0 for s, f in self._functions.items()}
        return own | dict(map(_native_address, self._native))

    def checked(self, code: Callable[..., None]) -> Callable[..., None]:
        """Returns machine code that raises what an operator raised during the call."""
        if not self._functions:
            return code

        def call(*arguments: object) -> None:
            self._failed.error = None
            code(*arguments)
            if self._failed.error is not None:
                raise self._failed.error

        return call

    def _function(self, entry: Attribute) -> Any:
        assert isinstance(entry, DictionaryAttr)
        given = entry.data["attributes"]
        assert isinstance(given, DictionaryAttr)
        own, attributes = _operator(entry), attribute_values(given.data)
        inputs, outputs = (_specs(entry.data[key]) for key in ("inputs", "outputs"))

        def call(*pointers: int | None) -> None:
            self._call(own, attributes, inputs, outputs, pointers)

        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(inputs) + len(outputs)))(call)

    def _call(
        self, own: OwnOperator, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec],
        pointers: Sequence[int | None],
    ) -> None:  # fmt: skip
        results = [_seen(p, spec) for p, spec in zip(pointers[len(inputs) :], outputs, strict=True)]
        try:
            given = [_seen(p, spec).copy() for p, spec in zip(pointers, inputs, strict=False)]
            for result, array in zip(results, own.compute(given, attributes, outputs), strict=True):
                result[...] = array
        except BaseException as error:
            self._failed.error = error
            for result in results:
                result[...] = 0


def _native_address(entry: Attribute) -> tuple[str, int]:
    """Returns the name and the address of the C function of an operator."""
    assert isinstance(entry, DictionaryAttr)
    domain, name, symbol = (cast("StringAttr", entry.data[key]).data for key in ("domain", "operator", "symbol"))
    own = required_operator(domain, name)
    if own.native is None or own.native.symbol != symbol:
        got = "a function in Python" if own.native is None else own.native.symbol
        raise QmlirError(f"must be the C function {symbol}, as when the network was read", where=own.called, got=got)
    return symbol, own.native.address


def _specs(types: Attribute) -> list[Spec]:
    assert isinstance(types, ArrayAttr)
    tensors = cast("ArrayAttr[TensorType[Attribute]]", types)
    return [(t.get_shape(), dtype_of(t.element_type)) for t in tensors.data]


def _seen(pointer: int | None, spec: Spec) -> Array:
    """Returns the tensor at an address as an array."""
    shape, dtype = spec
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(pointer or 0)), dtype).reshape(shape)


def _operator(entry: Attribute) -> OwnOperator:
    """The operator that a function of a module computes.

    Raises:
        QmlirError: The program does not define it.
    """
    assert isinstance(entry, DictionaryAttr)
    domain, name = entry.data["domain"], entry.data["operator"]
    assert isinstance(domain, StringAttr)
    assert isinstance(name, StringAttr)
    return required_operator(domain.data, name.data)
