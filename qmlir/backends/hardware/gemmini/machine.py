"""A functional model of Gemmini: what its commands make of a flat memory, bit for bit; there is no time in it.

    machine = Machine(memory)               # bytes, changed in place
    machine.run([(funct, rs1, rs2), …])     # or words one after the other: machine.run_words(words)

What Gemmini has and the model does not is refused: normalizations, activations other than ReLU, and counters.
"""

from collections.abc import Iterable, Sequence

from qmlir.backends.hardware.gemmini.arithmetic import factor
from qmlir.backends.hardware.gemmini.array import Array, Outward, Way
from qmlir.backends.hardware.gemmini.loops import convolve, multiply
from qmlir.backends.hardware.gemmini.words import Configured, Function, InstructionError, fields

_MOVES = {Function.MOVE_IN: 0, Function.MOVE_IN_2: 1, Function.MOVE_IN_3: 2}


class Machine(Array):
    """Gemmini after a reset."""

    def run_words(self, words: Sequence[int]) -> None:
        """Carries out commands of three words each.

        Raises:
            InstructionError: A command is none of Gemmini's, or leaves its memories.
        """
        if len(words) % 3:
            raise InstructionError("commands must have three words each", got=f"{len(words)} words")
        self.run(zip(words[::3], words[1::3], words[2::3], strict=True))

    def run(self, commands: Iterable[Sequence[int]]) -> None:
        """Carries out commands, each of a function and two registers, one after the other.

        Raises:
            InstructionError: A command is none of Gemmini's, or leaves its memories; its number is in the error.
        """
        for number, (function, first, second) in enumerate(commands):
            try:
                self._do(int(function), int(first), int(second))
            except InstructionError as error:
                where = f"command {number}"
                raise InstructionError(error.need, where=where, got=error.got, remedy=error.remedy) from None

    def _do(self, number: int, first: int, second: int) -> None:
        if number not in list(Function):
            raise InstructionError("must be a function that Gemmini has", got=f"function {number}")
        function = Function(number)
        if function is Function.CONFIG:
            kind = Configured(first & 3)
            self._configure(kind, fields(kind, first, second))
            return
        given = fields(function, first, second)
        match function:
            case Function.MOVE_IN | Function.MOVE_IN_2 | Function.MOVE_IN_3:
                self.move_in(_MOVES[function], given["address"], given["local"], given["local_rows"],
                             given["local_columns"])  # fmt: skip
            case Function.MOVE_OUT:
                self.move_out(given["address"], given["local"], given["local_rows"], given["local_columns"])
            case Function.PRELOAD:
                self.preloaded = given
            case Function.COMPUTE | Function.COMPUTE_AGAIN:
                self.compute(given, function is Function.COMPUTE)
            case Function.LOOP:
                multiply(self, self.loop | given)
            case Function.CONV:
                convolve(self, self.conv | given)
            case _:
                (self.loop if function < Function.CONV else self.conv).update(given)

    # -- configuration

    def _configure(self, kind: Configured, given: dict[str, int]) -> None:
        match kind:
            case Configured.EXECUTE:
                self.execute_as(given)
            case Configured.IN:
                self.ways[_three(given["which"])] = Way(
                    given["stride"], given["block_stride"], factor(given["scale"]), bool(given["small"]),
                    max(given["pixels"], 1),
                )  # fmt: skip
            case Configured.OUT:
                pool = given if given["pool_stride"] else None
                self.outward = Outward(given["stride"], factor(given["scale"]), relu(given["activation"]), pool)
            case Configured.NORM:
                raise InstructionError("must configure the array or a move", got="a normalization")

    def execute_as(self, given: dict[str, int]) -> None:
        """Sets how the array computes."""
        own = self.execution
        stays, a, b = (bool(given[name]) for name in ("weights_stay", "transpose_a", "transpose_b"))
        if (b and not a) if not stays else (a and b):
            kept = "weights" if stays else "outputs"
            raise InstructionError(f"the array must transpose what it can where {kept} stay", got=f"A {a}, B {b}")
        if given["shift"] > 31:
            raise InstructionError("sums must be shifted by at most 31 bits", got=str(given["shift"]))
        own.a_stride, own.c_stride = given["a_stride"], given["c_stride"]
        if not given["only_strides"]:
            own.weights_stay, own.transpose_a, own.transpose_b = stays, a, b
            own.relu, own.shift = relu(given["activation"]), given["shift"]


def relu(activation: int) -> bool:
    """Whether an activation is ReLU; it is none otherwise."""
    if activation > 1:
        raise InstructionError("an activation must be none or ReLU", got=f"activation {activation}")
    return activation == 1


def _three(which: int) -> int:
    if which > 2:
        raise InstructionError("there must be three moves in", got=f"number {which}")
    return which
