"""Steps of optimizers: the new values of a tensor and of what the optimizer remembers, from a gradient.

They are functions of elements on floats. Several tensors may share one node: its inputs are all tensors, all gradients
and so on, its outputs all new tensors and so on. A gradient itself (`Gradient`) has no form.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode

converts = Table()

DOMAIN = "ai.onnx.preview.training"

Update = Callable[..., tuple[Value, ...]]
"""From a tensor, its gradient and its states to the new tensor and the new states."""


class _Arithmetic:
    """Arithmetic on values and numbers in the place of a node, in f32 or whatever type the tensors have."""

    def __init__(self, node: ONNXNode, like: Value):
        self.node, self.like = node, like

    def do(self, operator: str, *inputs: Value | float, **attributes: Any) -> Value:
        """Adds an ONNX operator, and returns its output; numbers become constants."""
        values = [self.node.number(x, self.like) if isinstance(x, float | int) else x for x in inputs]
        return self.node.operator(operator, *values, **attributes)

    def sum(self, a: Value | float, b: Value | float) -> Value:
        """Returns a + b."""
        return self.do("Add", a, b)

    def product(self, a: Value | float, b: Value | float) -> Value:
        """Returns a · b."""
        return self.do("Mul", a, b)

    def quotient(self, a: Value | float, b: Value | float) -> Value:
        """Returns a / b."""
        return self.do("Div", a, b)

    def difference(self, a: Value | float, b: Value | float) -> Value:
        """Returns a − b."""
        return self.do("Sub", a, b)

    def regularized(self, x: Value, gradient: Value, norm: float) -> Value:
        """Returns the gradient of the loss with `norm` / 2 · x² added to it."""
        return self.sum(self.product(x, norm), gradient) if norm else gradient

    def number_of(self, steps: Value) -> Value:
        """Returns the number of steps, an i64, as a float."""
        kind = TensorProto.DOUBLE if self.node.element(self.like) == "f64" else TensorProto.FLOAT
        return self.node.operator("Cast", steps, to=kind)

    def from_first(self, steps: Value, after: Value | float, first: Value | float) -> Value:
        """Returns `first` in the first step, number 0, and `after` in all others."""
        begun = self.node.operator("Less", Constant(np.array(0, np.int64)), steps)
        return self.do("Where", begun, after, first)


def _each(node: ONNXNode, values: tuple[Value, ...], states: int, update: Update) -> tuple[Value, ...]:
    """Updates each tensor: `values` are all tensors, all their gradients, then each state of all of them."""
    count, rest = divmod(len(values), states + 2)
    if not count or rest:
        raise node.error(f"it must have {states + 2} inputs for each tensor", len(values))
    updated = [update(*values[i::count]) for i in range(count)]
    return tuple(each[part] for part in range(states + 1) for each in updated)


@converts("Adagrad", since=1, domain=DOMAIN)
def adagrad(
    node: ONNXNode, r: Value, t: Value, *values: Value, decay_factor: float = 0.0, epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """Divides each gradient by the root of the sum of the squares of all gradients so far."""

    def update(x: Value, gradient: Value, squares: Value) -> tuple[Value, ...]:
        own = _Arithmetic(node, x)
        rate = own.quotient(r, own.sum(own.product(own.number_of(t), decay_factor), 1.0)) if decay_factor else r
        slope = own.regularized(x, gradient, norm_coefficient)
        summed = own.sum(squares, own.product(slope, slope))
        root = own.sum(own.do("Sqrt", summed), epsilon)
        return own.difference(x, own.quotient(own.product(rate, slope), root)), summed

    return _each(node, values, 1, update)


@converts("Adam", since=1, domain=DOMAIN)
def adam(
    node: ONNXNode, r: Value, t: Value, *values: Value, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Value, ...]:  # fmt: skip
    """Divides a mean of the gradients by the root of a mean of their squares, both falling off exponentially."""

    def update(x: Value, gradient: Value, mean: Value, squares: Value) -> tuple[Value, ...]:
        own = _Arithmetic(node, x)
        slope = own.regularized(x, gradient, norm_coefficient)
        new_mean = own.sum(own.product(mean, alpha), own.product(slope, 1 - alpha))
        new_squares = own.sum(own.product(squares, beta), own.product(own.product(slope, slope), 1 - beta))
        root = own.sum(own.do("Sqrt", new_squares), epsilon)
        steps = own.number_of(t)
        less = [own.difference(1.0, own.do("Pow", base, steps)) for base in (beta, alpha)]
        unbiased = own.quotient(own.product(r, own.do("Sqrt", less[0])), less[1])
        rate = own.from_first(t, unbiased, r)
        moved = own.difference(x, own.product(rate, own.quotient(new_mean, root)))
        shrunk = own.product(moved, 1 - norm_coefficient_post) if norm_coefficient_post else moved
        return shrunk, new_mean, new_squares

    return _each(node, values, 2, update)


@converts("Momentum", since=1, domain=DOMAIN)
def momentum(
    node: ONNXNode, r: Value, t: Value, *values: Value, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> tuple[Value, ...]:  # fmt: skip
    """Moves along a sum of the gradients that falls off exponentially; Nesterov's goes one gradient further."""
    if mode not in ("standard", "nesterov"):
        raise UnsupportedError(f'its mode is "{mode}", and qmlir knows standard and nesterov')

    def update(x: Value, gradient: Value, mean: Value) -> tuple[Value, ...]:
        own = _Arithmetic(node, x)
        slope = own.regularized(x, gradient, norm_coefficient)
        share = own.from_first(t, beta, 1.0)
        new_mean = own.sum(own.product(mean, alpha), own.product(slope, share))
        step = own.sum(slope, own.product(new_mean, alpha)) if mode == "nesterov" else new_mean
        return own.difference(x, own.product(r, step)), new_mean

    return _each(node, values, 1, update)
