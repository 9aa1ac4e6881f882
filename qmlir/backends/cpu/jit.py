"""A compiled network as a Python callable: arrays in, arrays out.

    exe = Executable(text, weights=blob, arena_size=4096, signature=signature)
    y = exe(x)                          # one input, one output
    ys = exe({"a": a, "b": b})          # several: dicts by tensor name
    call = exe.bind(x)                  # then call() reads x where it is (bound.py)
    y = exe(xs)                         # several samples along the first axis, if the code takes batches

The code has the ABI `void net(const u8* weights, u8* arena, const void* const* inputs, void* const* outputs)`. It keeps
no state: weights are read-only, and each running call has its own arena (scratch memory), taken from a free list. An
executable may therefore be called from many threads at once; ctypes releases the interpreter's lock during a call.
States (ir/states.py) are inputs and outputs of the code; the executable keeps them (ir/callable_network.py), and its
calls then follow one another. Executables compiled for several threads share the pool of the process (pool.py), which a
call has for a loop at a time.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qmlir.backends.cpu.bound import BoundCall
from qmlir.backends.cpu.carrying import Carrying
from qmlir.backends.cpu.frame import Frame, aligned_empty
from qmlir.backends.cpu.llvm import (
    LoadedObject,
    Machine,
    code_bytes,
    compile_assembly,
    compile_object,
    missing_here,
    require_here,
)
from qmlir.backends.cpu.pool import run_address
from qmlir.display import Table, bytes_text
from qmlir.errors import InputError, QmlirError
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.callable_network import CallableNetwork, Sample
from qmlir.ir.signature import RUN_SHARES, Signature, TensorSpec, batch_symbol
from qmlir.numerics import Array

if TYPE_CHECKING:
    from qmlir.backends.cpu.calls import OwnCalls


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes: of the machine code, of the weights, and of the scratch memory (arena) of each running call."""

    code: int
    weights: int
    arena: int


class Executable(CallableNetwork):
    """A network compiled for one processor; only a processor with its features can run it.

    signature       inputs and outputs by name, and states
    weights         the weights blob, uint8
    arena_size      bytes of scratch memory of each running call
    entry           the name of the function to call
    calls_program   whether a call calls operators that the running program defines (calls.py)
    native_symbols  the C functions among these operators, which a program that links the object defines
    in_python       the others of these operators, as errors call them; no program that links the object can define them
    """

    def __init__(
        self,
        llvm_ir: str | Callable[[], str],
        *,
        weights: Array,
        arena_size: int,
        signature: Signature,
        entry: str = "main",
        machine: Machine | None = None,
        compiled: bytes | Callable[[], bytes] | None = None,
        calls: "OwnCalls | None" = None,
        later: bool = False,
    ):
        """Optimizes and loads the code.

        Args:
            llvm_ir: Text of a module with the external function `entry` of the ABI above, or a function that reads it.
            weights: The weights blob, of any dtype; kept as it is if it is aligned, copied otherwise.
            arena_size: Bytes of scratch memory that a call needs.
            signature: The inputs, outputs and states; the two tables of the ABI point to those of `signature.flat()`.
            entry: The function's name.
            machine: The processor; by default the processor of this machine.
            compiled: The object file, or what returns it, if the text was compiled for this processor before.
            calls: The operators of the program that the code calls.
            later: Whether the text is compiled when the object file or a call is asked for, and not now.
        """
        if calls is not None:  # an operator of the program may fail, which has to leave the states as they were
            signature = replace(signature, states=tuple(replace(s, in_place=False) for s in signature.states))
        super().__init__(signature)
        self._calls, self.calls_program = calls, calls is not None
        self.native_symbols = [] if calls is None else calls.symbols
        self.in_python = [] if calls is None else calls.in_python
        self._llvm_ir = llvm_ir
        self._flat = signature.flat()
        self.entry = entry
        self.machine = machine or Machine.host()
        self.weights = _aligned(weights)
        self.arena_size = arena_size
        self._batches = signature.batch is not None
        self._weights_address = self.weights.ctypes.data
        self._free: list[Frame] = []  # a list's pop and append are atomic
        self._carrying: Carrying | None = None
        self._compiled = compiled
        if not later:
            _ = self.sizes, self._function

    @cached_property
    def object(self) -> bytes:
        """The compiled object file, with the external symbol `entry`."""
        if self._compiled is None:
            return compile_object(self.llvm_ir, self.machine)
        return self._compiled if isinstance(self._compiled, bytes) else self._compiled()

    def generated(self, known: dict[str, bytes]) -> "Executable":
        """Generates code that is left for later, unless that of the same text is known; returns the executable.

        Args:
            known: Object files by the texts that they were compiled from, for this processor; receives this one.
        """
        self._compiled = known.get(self.llvm_ir, self._compiled)
        known[self.llvm_ir] = self.object
        return self

    @cached_property
    def sizes(self) -> Sizes:
        """The bytes of code, weights and arena."""
        return Sizes(code_bytes(self.object), self.weights.nbytes, self.arena_size)

    @cached_property
    def uses_pool(self) -> bool:
        """Whether a call shares loops with the threads of the process's pool (pool.py)."""
        return RUN_SHARES.encode() in self.object

    @cached_property
    def _function(self) -> Callable[..., None]:
        """The code of the entry, or what refuses to run it here."""
        return self._refuse if self.machine.triple or missing_here(self.machine) else self._load()

    def __reduce__(self) -> tuple[Callable[..., "Executable"], tuple[Any, ...]]:
        """Pickles the compiled code, which another process loads; its processor must have the same features."""
        if self.calls_program:
            raise TypeError("the code calls operators of the running program")
        signatures = {name: each.signature for name, each in self.entries.items()}
        parts = (self.llvm_ir, self.weights, self.arena_size, self.signature, self.entry, self.machine, self.object)
        return _loaded, (*parts, signatures)

    def with_entries(self, signatures: Mapping[str, Signature]) -> "Executable":
        """Returns the executable as the first of several entries of its code, which share weights and states.

        Args:
            signatures: The signatures of all entries by their names, the first of which is the executable's own.
        """
        given: dict[str, Any] = {"weights": self.weights, "arena_size": self.arena_size, "machine": self.machine}
        given |= {"compiled": lambda: self.object, "calls": self._calls, "later": "_function" not in vars(self)}
        others = {n: Executable(self._llvm_ir, signature=s, entry=n, **given) for n, s in [*signatures.items()][1:]}
        return Executable.joined({self.entry: self, **others})

    def table(self) -> Table:
        sizes = f"{bytes_text(self.sizes.code)} of code, {bytes_text(self.sizes.weights)} of weights, "
        sizes += f"{bytes_text(self.sizes.arena)} of scratch memory for each call"
        return Table(f"compiled network {self.signature.described()}; {sizes}")

    def _load(self) -> Callable[..., None]:
        symbols = {RUN_SHARES: run_address()} if self.uses_pool else {}
        try:
            symbols |= {} if self._calls is None else self._calls.addresses()
        except QmlirError as error:  # a C function that is not here; the object is good for a program that has it
            return partial(_raise, error)
        self._loaded = LoadedObject(self.object, batch_symbol(self.entry) if self._batches else self.entry, symbols)
        count = (ctypes.c_int64,) if self._batches else ()
        prototype = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 4, *count)
        code = prototype(self._loaded.address)
        return code if self._calls is None else self._calls.checked(code)

    def _refuse(self, *arguments: Any) -> None:
        require_here(self.machine)

    def run_in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the code on its inputs in order, states among them, and returns its outputs in order.

        The inputs must have the shapes and dtypes of `signature.flat()`; they are not checked.

        Raises:
            UnsupportedError: The code is for another architecture, or for features that this processor lacks.
        """
        try:
            frame = self._free.pop()
        except IndexError:
            frame = self._new_frame()
        try:
            for i, array in enumerate(arrays):
                frame.take(i, array)
            specs, count = self._called_on(arrays)
            results = [frame.result(i, spec) for i, spec in enumerate(specs)]
            self._function(self._weights_address, frame.arena_address, frame.inputs, frame.outputs, *count)
            return [array if own is None else own.copy() for array, own in zip(results, frame.made, strict=True)]
        finally:
            self._free.append(frame)

    def advance(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the code on inputs in order, without states and unchecked; returns the outputs in order.

        States stay where they are: a call reads one set of arrays and fills the other, which are the same for states
        that it renews in place, so that it has no addresses to tell but those of what its caller gives and gets.
        """
        if not self.signature.states or self._batches:
            return super().advance(arrays)
        kept = self.kept
        with kept.turn:
            turn, sets = kept.before(), kept.sets()
            if self._carrying is None or self._carrying.sets is not sets:
                self._carrying = Carrying(self.signature, self._new_frame(), sets)
            frame, outputs = self._carrying.begin(turn, arrays)
            self._function(self._weights_address, frame.arena_address, frame.inputs, frame.outputs)
            kept.behind(turn)
            return [array if own is None else own.copy() for array, own in outputs]

    def run_all(self, samples: Sequence[Sample]) -> list[list[Array]]:
        """Runs several samples in order, in batches if the code takes batches; returns the outputs of each sample.

        Each sample has the shape of one. Samples with inputs that a batch would share are run one by one.
        """
        batch = self.signature.batch
        if batch is None or not all(batch.inputs):
            return super().run_all(samples)
        found: list[list[Array]] = []
        for start in range(0, len(samples), batch.most):
            given = [self.signature.arrays(sample) for sample in samples[start : start + batch.most]]
            sizes = [self.signature.samples_in(arrays) for arrays in given]
            if set(sizes) != {1}:
                found += [self.run_in_order(arrays) for arrays in given]
                continue
            results = self.run_in_order([np.concatenate(arrays) for arrays in zip(*given, strict=True)])
            found += [[array[i : i + 1] for array in results] for i in range(len(given))]
        return found

    def _called_on(self, arrays: Sequence[Array]) -> tuple[Sequence[TensorSpec], tuple[int, ...]]:
        """Returns the outputs of a call on inputs, and the number of samples if the code wants to know it."""
        if not self._batches:
            return self._flat.outputs, ()
        samples = self.signature.samples_in(arrays)
        return [spec.of(samples) for spec in self._flat.outputs], (samples,)

    def bind(self, inputs: Array | Mapping[str, Array]) -> BoundCall:
        """Returns a function that computes the network on what these arrays hold when it is called (bound.py).

        The function has states of its own, which begin with their reset values.

        Args:
            inputs: The array of the only input, or arrays by tensor name: C-contiguous, aligned, of the input's dtype.

        Raises:
            InputError: As for a call; or an array would have to be copied.
        """
        given = self.signature.arrays(inputs)
        for spec, array in zip(self.signature.inputs, given, strict=True):
            if array is not (inputs[spec.name] if isinstance(inputs, Mapping) else inputs):
                need = "must be C-contiguous, aligned and of native byte order: it is read where it is"
                raise InputError(spec.name, need, remedy="bind numpy.ascontiguousarray of it")
        specs, count = self._called_on(given)
        results = [np.empty(spec.shape, spec.dtype) for spec in specs]
        states = [np.array(state.reset) for state in self.signature.states]
        for array, state in zip(states, self.signature.states, strict=True):
            if state.in_place:
                results[state.places[1]] = array
        outputs, after = self.signature.parted(results)
        frame, answer = self._new_frame(), self.signature.whole(outputs)
        frame.bind(self.signature.joined(given, states), results)
        carried = [(s, a, state.reset) for s, a, state in zip(states, after, self.signature.states, strict=True)]
        return BoundCall(self._function, self.weights, frame, given, outputs, answer, carried, self, count)

    @property
    def llvm_ir(self) -> str:
        """The module's text before optimization."""
        if not isinstance(self._llvm_ir, str):
            self._llvm_ir = self._llvm_ir()
        return self._llvm_ir

    def assembly(self) -> str:
        """The optimized code as assembly text for readers; it is generated anew on each call."""
        return compile_assembly(self.llvm_ir, self.machine)

    def _new_frame(self) -> Frame:
        """The memory of one more call at a time.

        Raises:
            QmlirError: The process has no memory for another arena.
        """
        try:
            return Frame(self.arena_size, self._flat, copies=not self._batches)
        except MemoryError:
            raise QmlirError(
                f"needs {self.arena_size} bytes of scratch memory, more than there is",
                where="the network",
                remedy="give the process more memory",
            ) from None


def _raise(error: QmlirError, *arguments: object) -> NoReturn:
    raise error


def _aligned(array: Array) -> Array:
    """The array's bytes, aligned to a cache line; copied only if they are not aligned already."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if data.ctypes.data % CACHE_LINE == 0:
        return data
    copy = aligned_empty(data.size)
    copy[:] = data
    return copy


def _loaded(
    text: str, weights: Array, arena: int, signature: Signature, entry: str, machine: Machine, compiled: bytes,
    signatures: Mapping[str, Signature],
) -> Executable:  # fmt: skip
    """Loads the parts of an executable that another process compiled."""
    settings: dict[str, Any] = {"signature": signature, "entry": entry, "machine": machine, "compiled": compiled}
    executable = Executable(text, weights=weights, arena_size=arena, **settings)
    return executable.with_entries(signatures) if entry == next(iter(signatures), None) else executable
