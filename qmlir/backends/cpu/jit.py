"""A compiled network as a Python callable: arrays in, arrays out.

    exe = Executable(text, weights=blob, arena_size=4096, signature=signature)
    y = exe(x)                          # one input, one output
    ys = exe({"a": a, "b": b})          # several: dicts by tensor name

The code has the ABI `void net(const u8* weights, u8* arena, const void* const* inputs, void* const* outputs)`. It
keeps no state: weights are read-only, and each running call has its own arena (scratch memory), taken from a free list.
An executable may therefore be called from many threads at once; ctypes releases the interpreter's lock during a call.
Executables compiled for several threads share the pool of the process (pool.py), which a call has for a loop at a time.
"""

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qmlir.backends.cpu.machine import (
    LoadedObject,
    Machine,
    code_bytes,
    compile_assembly,
    compile_object,
    host_triple,
    missing_here,
)
from qmlir.backends.cpu.pool import run_address
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.signature import RUN_SHARES, Signature, TensorSpec
from qmlir.numerics import Array

SMALL = 16 * 1024
"""The most bytes of an array that a call copies; copying them takes less than a microsecond."""


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes: of the machine code, of the weights, and of the scratch memory (arena) of each running call."""

    code: int
    weights: int
    arena: int


class Executable:
    """A network compiled for one processor; only a processor with its features can run it.

    signature  inputs and outputs by name
    llvm_ir    the module's text before optimization
    object     the compiled object file, with the external symbol `entry`
    weights    the weights blob, uint8
    entry      the name of the function to call
    sizes      bytes of code, weights and arena
    uses_pool  whether a call shares loops with the threads of the process's pool (pool.py)
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
        compiled: bytes | None = None,
    ):
        """Optimizes and loads the code.

        Args:
            llvm_ir: Text of a module with the external function `entry` of the ABI above, or a function that reads it.
            weights: The weights blob, of any dtype; kept as it is if it is aligned, copied otherwise.
            arena_size: Bytes of scratch memory that the code needs.
            signature: The inputs and outputs that the two tables of the ABI point to, in order.
            entry: The function's name.
            machine: The processor; by default the processor of this machine.
            compiled: The object file, if the text was compiled for this processor before.
        """
        self._llvm_ir = llvm_ir
        self.signature = signature
        self.entry = entry
        self.machine = machine or Machine.host()
        self.weights = _aligned(weights)
        self._arena_size = arena_size
        self._weights_address = self.weights.ctypes.data
        self._free: list[_Frame] = []  # a list's pop and append are atomic
        self.object = compile_object(self.llvm_ir, self.machine) if compiled is None else compiled
        self.sizes = Sizes(code_bytes(self.object), weights.nbytes, arena_size)
        self.uses_pool = RUN_SHARES.encode() in self.object
        self._missing = [] if self.machine.triple else missing_here(self.machine)
        self._function = self._refuse if self.machine.triple or self._missing else self._load()

    def _load(self) -> Callable[..., None]:
        self._loaded = LoadedObject(self.object, self.entry, {RUN_SHARES: run_address()} if self.uses_pool else {})
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return prototype(self._loaded.address)

    def _refuse(self, *arguments: object) -> None:
        where = f"code for {self.machine.cpu}"
        if self.machine.triple:
            raise UnsupportedError(f"runs on {self.machine.triple} only", host_triple(), where=where)
        got = f"{Machine.host().cpu} without {', '.join(self._missing)}"
        raise UnsupportedError("runs on processors with all its features only", got, where=where)

    def __call__(self, inputs: Array | Mapping[str, Array]) -> Any:
        """Runs the network.

        Args:
            inputs: The array of the only input, or arrays by tensor name.

        Returns:
            The array of the only output, or arrays by tensor name.

        Raises:
            InputError: An input is missing or unknown, or has another shape or dtype than the network's input.
            UnsupportedError: The code is for another architecture, or for features that this processor lacks.
        """
        return self.signature.result(self.run(inputs))

    def run(self, inputs: Array | Mapping[str, Array]) -> list[Array]:
        """Runs the network like a call does, but always returns a list of the outputs in order."""
        return self.run_in_order(self.signature.arrays(inputs))

    def run_in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the network on inputs in order and returns the outputs in order.

        The inputs must have the shapes and dtypes of the signature; they are not checked.
        """
        try:
            frame = self._free.pop()
        except IndexError:
            frame = self._new_frame()
        try:
            for i, array in enumerate(arrays):
                frame.take(i, array)
            results = [frame.result(i, spec) for i, spec in enumerate(self.signature.outputs)]
            self._function(self._weights_address, frame.arena_address, frame.inputs, frame.outputs)
            return [array if own is None else own.copy() for array, own in zip(results, frame.made, strict=True)]
        finally:
            self._free.append(frame)

    @property
    def llvm_ir(self) -> str:
        """The module's text before optimization."""
        if not isinstance(self._llvm_ir, str):
            self._llvm_ir = self._llvm_ir()
        return self._llvm_ir

    def assembly(self) -> str:
        """The optimized code as assembly text for readers; it is generated anew on each call."""
        return compile_assembly(self.llvm_ir, self.machine)

    def _new_frame(self) -> "_Frame":
        """The memory of one more call at a time.

        Raises:
            QmlirError: The process has no memory for another arena.
        """
        try:
            return _Frame(self._arena_size, self.signature)
        except MemoryError:
            raise QmlirError(
                f"needs {self._arena_size} bytes of scratch memory, more than there is",
                where="the network",
                remedy="give the process more memory",
            ) from None


class _Frame:
    """What a call needs besides its arrays: an arena, and the tables of the ABI; calls one after another share it.

    Small inputs and results are copied to and from arrays of the frame (`given`, `made`; None for others): numpy takes
    longer to tell an array's address.
    """

    __slots__ = ("arena", "arena_address", "given", "inputs", "made", "outputs")

    def __init__(self, arena_size: int, signature: Signature):
        self.arena = _aligned_empty(arena_size)
        self.arena_address = self.arena.ctypes.data
        self.given, self.inputs = _small_arrays(signature.inputs)
        self.made, self.outputs = _small_arrays(signature.outputs)

    def take(self, i: int, array: Array) -> None:
        """Makes an array input `i` of the call."""
        own = self.given[i]
        if own is None:
            self.inputs[i] = array.ctypes.data
        else:
            own[...] = array

    def result(self, i: int, spec: TensorSpec) -> Array:
        """The array that the call fills with output `i`."""
        own = self.made[i]
        if own is not None:
            return own
        array = np.empty(spec.shape, spec.dtype)
        self.outputs[i] = array.ctypes.data
        return array


def _small_arrays(specs: Sequence[TensorSpec]) -> tuple[list[Array | None], Any]:
    """An array for each small tensor, None for each other one, and a table with the addresses of these arrays."""
    small = [math.prod(spec.shape) * spec.dtype.itemsize <= SMALL for spec in specs]
    arrays = [np.empty(spec.shape, spec.dtype) if fits else None for spec, fits in zip(specs, small, strict=True)]
    return arrays, (ctypes.c_void_p * len(specs))(*(None if a is None else a.ctypes.data for a in arrays))


def _aligned_empty(size: int) -> Array:
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size]


def _aligned(array: Array) -> Array:
    """The array's bytes, aligned to a cache line; copied only if they are not aligned already."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if data.ctypes.data % CACHE_LINE == 0:
        return data
    copy = _aligned_empty(data.size)
    copy[:] = data
    return copy
