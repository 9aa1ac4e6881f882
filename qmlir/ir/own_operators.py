"""Operators that the running program defines, by functions in Python or C, for what qmlir lacks in model files.

    @qmlir.register_op("my.domain", "Swirl")
    def swirl(x, *, strength=1.0): ...

    qmlir.register_op("my.domain", "Swirl", library="libswirl.so", symbol="swirl", attributes={"strength": 1.0})

The importers make `custom.call` of such an operator (dialects/custom.py). The reference calls the function, and machine
code calls it through a pointer; a function in C it calls without Python, and from object files too (native.py). The
functions live as long as the program, or as a `scoped_ops`; no file holds them.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from qmlir.errors import OptionError, QmlirError
from qmlir.ir.native import NativeFunction
from qmlir.numerics import Array

Shape = tuple[int, ...]


@dataclass(frozen=True)
class OwnOperator:
    """An operator that the program defines.

    domain    the operator's domain in ONNX files, or `tflite` for a custom operator of TFLite files
    name      the operator's name
    function  from arrays, and attributes by name, to an array or a tuple of arrays; None for a function in C
    shape     from shapes, and attributes by name, to the shape of the result, or to a list with one for each result;
              None if each result has the shape of the first input
    dtype     the element type of the results; None for that of the first input
    native    the function in C; None for a function in Python
    """

    domain: str
    name: str
    function: Callable[..., Any] | None
    shape: Callable[..., Any] | None
    dtype: np.dtype[Any] | None
    native: NativeFunction | None = None

    @property
    def called(self) -> str:
        """The name in errors."""
        return f'operator "{self.name}" of domain "{self.domain}"'

    def shapes(self, inputs: Sequence[Shape], attributes: Mapping[str, Any], results: int) -> list[Shape]:
        """Returns the shapes of the results.

        Raises:
            QmlirError: The function fails, or does not return one shape for each result.
        """
        if self.shape is None:
            return [inputs[0] if inputs else ()] * results
        try:
            found = self.shape(*inputs, **attributes)
        except Exception as error:  # the program's own code may raise anything
            raise self._fault("its shape function must return shapes", f"{type(error).__name__}: {error}") from error
        given = cast(list[Any], found if isinstance(found, list) else [found])
        try:
            shapes = [tuple(int(size) for size in shape) for shape in given]
        except (TypeError, ValueError):
            shapes = []
        if len(shapes) != results or any(size < 0 for shape in shapes for size in shape):
            raise self._fault(f"its shape function must return {results} shapes", repr(cast(object, found)))
        return shapes

    def compute(
        self, inputs: Sequence[Array], attributes: Mapping[str, Any], results: Sequence[tuple[Shape, np.dtype[Any]]]
    ) -> tuple[Array, ...]:
        """Calls the function, and returns its results after checking them.

        Raises:
            QmlirError: The function fails, or its results are not arrays of these shapes and element types.
        """
        if self.native is not None:
            return self.native(inputs, self.native.numbers(attributes, self.called), results)
        assert self.function is not None
        try:
            found = self.function(*inputs, **attributes)
        except Exception as error:  # the program's own code may raise anything
            raise self._fault("its function must not fail", f"{type(error).__name__}: {error}") from error
        arrays = tuple(np.asarray(a) for a in (cast(tuple[Any, ...], found) if isinstance(found, tuple) else (found,)))
        got = [(a.shape, a.dtype) for a in arrays]
        if got != [(tuple(shape), dtype) for shape, dtype in results]:
            wanted, shown = (", ".join(f"{d}{list(s)}" for s, d in each) for each in (results, got))
            raise self._fault(f"its function must return {wanted}", shown)
        return arrays

    def _fault(self, need: str, got: str) -> QmlirError:
        return QmlirError(need, where=self.called, got=" ".join(got.split()), remedy="repair the function")


_registered: dict[tuple[str, str], OwnOperator] = {}


def register_op(
    domain: str,
    name: str,
    function: Callable[..., Any] | None = None,
    *,
    shape: Callable[..., Any] | None = None,
    dtype: Any = None,
    library: Any = None,
    symbol: str | None = None,
    attributes: Mapping[str, float] | None = None,
) -> Any:
    """Defines an operator of model files that qmlir does not know by a function in Python or C.

    The function must compute the same results from the same inputs whenever it is called; it may be called while a
    network is imported or simplified, and from any thread. An operator that qmlir knows stays as it is. The operation
    stays on floats in a quantized network. On a device, the host calls the function. Exported files and the command
    line do not have it. An object file calls a function in C by its name, as its header says; it cannot call Python.

    Args:
        domain: The operator's domain in ONNX files, or `tflite` for a custom operator of TFLite files.
        name: The operator's name.
        function: A function from arrays to an array, or to a tuple of arrays; attributes are keyword arguments. If it
            is left out, and there is no library, the call returns a decorator.
        shape: A function from the shapes of the inputs to the shape of the result, or to a list with one for each
            result. By default, results have the shape of the first input. TFLite files state the shapes.
        dtype: The element type of the results; by default that of the first input. TFLite files state it.
        library: The path of a shared library that has the function in C, or one that `ctypes` has loaded.
        symbol: The name of that function, whose prototype is always the same (docs/extending.md).
        attributes: The attributes that the function in C takes, in order, with the numbers that count if a node lacks
            them.

    Raises:
        OptionError: A name is no text, a function cannot be called, the library cannot be loaded or lacks the function.

    >>> import qmlir
    >>> with qmlir.scoped_ops():  # without a scope, the operator stays as long as the program runs
    ...     _ = qmlir.register_op("my.domain", "Swirl", lambda x, strength=1.0: x * strength)
    """
    for option, text in (("domain", domain), ("name", name)):
        if not isinstance(cast(object, text), str) or not (text or option == "domain"):
            raise OptionError(f"register_op {option}", "must be text", got=repr(text))
    for option, given in (("function", function), ("shape", shape)):
        if given is not None and not callable(given):
            raise OptionError(f"register_op {option}", "must be a function", got=repr(given))
    try:
        element = None if dtype is None else np.dtype(dtype)
    except TypeError:
        raise OptionError("register_op dtype", "must be an element type of numpy", got=repr(dtype)) from None

    if library is not None or symbol is not None:
        if function is not None:
            raise OptionError("register_op function", "must be left out beside a function in C", got=repr(function))
        native = NativeFunction.of(library, symbol, attributes)
        _registered[domain, name] = OwnOperator(domain, name, None, shape, element, native)
        return None

    def register(given: Any) -> Any:
        _registered[domain, name] = OwnOperator(domain, name, given, shape, element)
        return given

    return register if function is None else register(function)


@contextmanager
def scoped_ops() -> Generator[None]:
    """Forgets the operators that are defined inside when it ends, and defines again what they replaced.

    >>> import qmlir
    >>> with qmlir.scoped_ops():
    ...     _ = qmlir.register_op("my.domain", "Swirl", lambda x: -x)
    """
    before = dict(_registered)
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


def own_operator(domain: str, name: str) -> OwnOperator | None:
    """Returns the operator that the program defines under a name; None if there is none."""
    return _registered.get((domain, name))


def required_operator(domain: str, name: str) -> OwnOperator:
    """Returns the operator that the program defines under a name.

    Raises:
        QmlirError: The program defines none.
    """
    if (found := own_operator(domain, name)) is None:
        raise QmlirError(
            "must be defined by the program", where=f'operator "{name}" of domain "{domain}"', got="no function",
            remedy=f'call qmlir.register_op("{domain}", "{name}", function) before',
        )  # fmt: skip
    return found
