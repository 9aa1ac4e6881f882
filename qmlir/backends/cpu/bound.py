"""A network's calls on arrays that stay where they are, so that a call costs little more than its code.

For a network that is called in a loop:

    call = exe.bind(x)                  # x and the result keep their places
    while camera.read_into(x):
        y = call()                      # reads x, fills the same y again
"""

from collections.abc import Callable, Sequence
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

    __slots__ = ("_answer", "_arguments", "_carried", "_function", "_kept", "inputs", "results")

    def __init__(
        self,
        function: Callable[..., None],
        weights: Array,
        frame: Frame,
        inputs: list[Array],
        results: list[Array],
        answer: Any,
        carried: Sequence[tuple[Array, Array, Array]],
        code: object,
        count: tuple[int, ...] = (),
    ):
        """Prepares calls in a frame that is bound to all arrays.

        Args:
            function: The machine code.
            weights: The weights blob.
            frame: The memory of the calls.
            inputs: The inputs.
            results: The outputs.
            answer: What calls return.
            carried: For each state the array that calls read, the array that they fill, which may be the same, and the
                reset value.
            code: The owner of the machine code.
            count: The number of samples, if the code wants to know it.
        """
        self.inputs, self.results = inputs, results
        self._carried = carried
        self._function, self._answer = function, answer
        self._arguments = weights.ctypes.data, frame.arena_address, frame.inputs, frame.outputs, *count
        self._kept = code, weights, frame  # the addresses are those of their memory

    def __call__(self) -> Any:
        """The array of the only output, or arrays by tensor name: the same arrays in each call."""
        self._function(*self._arguments)
        for before, after, _ in self._carried:
            if after is not before:
                before[...] = after
        return self._answer

    def reset(self) -> None:
        """Gives all states the values that they have before the first call."""
        for before, _, value in self._carried:
            before[...] = value
