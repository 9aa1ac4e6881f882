"""Rounding methods of weights that packages and programs add (plugins.py), and what such a method gets. numpy only.

    @register_rounding("nearest-again")
    def nearest_again(layer: WeightsToRound) -> Array:
        return np.clip(np.rint(layer.weights), layer.lowest, layer.highest)

A rounding method chooses the integers of a layer's weights. It does not choose the bits of the network's arithmetic:
how sums are requantized at run time is the contract (contracts.py), which every back end has to follow bit for bit, and
which is not extensible.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np

from qmlir.errors import QmlirError
from qmlir.numerics import Array, Float32s, Float64s
from qmlir.plugins import ROUNDINGS, Plugin, plugin, register

BUILT_IN = ("auto", "nearest", "gptq", "adaround")
"""The names that plugins cannot have: values of the option `rounding`, see settings/quant_config.py."""


@dataclass(frozen=True)
class WeightsToRound:
    """The input of a rounding method: the weights of one layer as rows of a matrix product, and the data they meet.

        sums[g, p, m] = Σ_k data[g, p, k] · integers[g, m, k]

    g counts groups of outputs that read the same values: the groups of a convolution, the input channels of a depthwise
    convolution, and blocks of at most 1024 terms of longer sums. p counts positions of samples, m the outputs of a
    group, k the terms of a sum.

    layer            the name of the layer
    weights          what the integers approximate: weights divided by their scale, plus the zero point, [g, m, k]
    nearest          the nearest integers within the limits, [g, m, k]
    data             the integers that the layer reads, minus their zero point, [g, p, k]
    lowest, highest  the limits of the integers
    """

    layer: str
    weights: Float64s
    nearest: Float64s
    data: Float32s
    lowest: int
    highest: int


F = TypeVar("F", bound=Callable[[WeightsToRound], Array])


def rounding_called(name: str) -> Plugin | None:
    """Returns the plugin of a rounding method's name; None for qmlir's own `auto`, `nearest`, `gptq` and `adaround`.

    Raises:
        PluginError: Several methods have the name.
    """
    return plugin(ROUNDINGS, name, BUILT_IN)


def rounded_by(method: Plugin, weights: WeightsToRound) -> Float64s:
    """Returns the integers that a plugin chooses for weights, [g, m, k].

    Raises:
        PluginError: The plugin is no function, fails, or returns something else than integers within the limits.
    """
    function = method.load()
    if not callable(function):
        raise method.fault("must be a function", got=repr(function), where=weights.layer)
    need = f"must return integers from {weights.lowest} to {weights.highest}, of shape {list(weights.weights.shape)}"
    try:
        found: Any = np.asarray(function(weights), np.float64)
    except QmlirError:
        raise
    except Exception as error:  # it is not our code
        got = " ".join(f"{type(error).__name__}: {error}".split())
        raise method.fault(need, got=got, where=weights.layer) from error
    if found.shape != weights.weights.shape:
        raise method.fault(need, got=f"shape {list(found.shape)}", where=weights.layer)
    wrong = found[~((found == np.rint(found)) & (found >= weights.lowest) & (found <= weights.highest))]
    if wrong.size:
        raise method.fault(need, got=f"{wrong[0]:g}", where=weights.layer)
    return found


@overload
def register_rounding(name: str) -> Callable[[F], F]: ...


@overload
def register_rounding(name: str, function: F) -> F: ...


def register_rounding(name: str, function: Callable[[WeightsToRound], Array] | None = None) -> Any:
    """Adds a rounding method of weights, which is then an option's value: `quantize(net, data=…, rounding="up")`.

    The quantizer asks the method for each convolution and fully connected layer with constant weights, in the order of
    the network, so the data are those of layers that are rounded already. It needs samples. Weights of other operations
    are rounded to the nearest integers, as are weights that several layers share.

    Args:
        name: Letters, digits, `-` and `_`. A name that the program registered before gets the new function.
        function: From `WeightsToRound`, real numbers [g, m, k] in units of their scale and data [g, p, k], to integers
            within the limits, [g, m, k]. None to use this as a decorator.

    Returns:
        The function itself.

    Raises:
        PluginError: The name is no name, or is that of another rounding method.

    >>> import numpy as np
    >>> @register_rounding("towards-zero")
    ... def towards_zero(layer):
    ...     return np.trunc(layer.weights)
    """
    if function is None:
        return partial(register_rounding, name)
    register(ROUNDINGS, name, function, BUILT_IN)
    return function
