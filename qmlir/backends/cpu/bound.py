"""A network's calls on arrays that stay where they are, so that a call costs little more than its code.

For a network that is called in a loop:

    call = exe.bind(x)                  # x and the result keep their places
    while camera.read_into(x):
        y = call()                      # reads x, fills the same y again
"""

from collections.abc import Callable
from typing import Any

from qmlir.backends.cpu.frame import Frame
from qmlir.numerics import Array


class BoundCall:
    """A function without arguments that computes the network on the bound inputs; it returns the bound results.

    Results whose sizes depend on the data have their largest size, and the numbers of what counts are results too.

    Every call reads what the input arrays hold at that time, and overwrites the result arrays. It has an arena of its
    own, so it may run beside other calls of the executable, but only once at a time.

    inputs   the arrays that calls read, in order
    results  the arrays that calls fill, in order
    """

    __slots__ = ("_answer", "_arguments", "_function", "_kept", "inputs", "results")

    def __init__(
        self,
        function: Callable[..., None],
        weights: Array,
        frame: Frame,
        inputs: list[Array],
        results: list[Array],
        answer: Any,
        code: object,
    ):
        """`answer` is what calls return; `code` owns the function's machine code."""
        frame.bind(inputs, results)
        self.inputs, self.results = inputs, results
        self._function, self._answer = function, answer
        self._arguments = weights.ctypes.data, frame.arena_address, frame.inputs, frame.outputs
        self._kept = code, weights, frame  # the addresses are those of their memory

    def __call__(self) -> Any:
        """The array of the only output, or arrays by tensor name: the same arrays in each call."""
        self._function(*self._arguments)
        return self._answer
