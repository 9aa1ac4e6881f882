"""The same bits on every processor: `make everywhere` runs five networks on each of them, in emulators.

python -m docs.measurements.everywhere                          all networks on all processors
python -m docs.measurements.everywhere kws --cpu cortex-m4      one network on one processor
python -m docs.measurements.everywhere --inputs 10              fewer inputs than 100
python -m docs.measurements.everywhere --memory fast            code for speed, not for little memory as bundles have it

Each network is compiled for a processor and linked with a program that has no library beside memset and memcpy on
Linux, and nothing elsewhere. The inputs are seeded: the least and the greatest numbers, and random ones. A line says
how many inputs give the bytes of the reference, the bytes of code, of constants, of memory that a call needs and of its
stack, if they are known, and the instructions of a call where the emulator counts them. The status is 1 if a byte
differs.

A line ends with our figures divided by another runtime's, where microcontrollers.json beside this file has some for the
network and the processor: instructions; memory, which is the arena with inputs and outputs; code with constants. They
are recorded ones, of TensorFlow Lite Micro with CMSIS-NN for the same networks on the same emulated boards;
docs/microcontrollers.md says of which versions.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

import qmlir
from docs.measurements.certificates import SHARED, networks
from qmlir.backends.cpu import Executable
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.backends.cpu.stack import stack_bytes
from qmlir.dialects.loops import MEMORY
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.ir.signature import main_function
from qmlir.numerics import Array
from tests.backends.cpu import programs

NETWORKS: Mapping[str, str] = {
    "kws": "kws_i8",
    "resnet8": "resnet8_i8",
    "vww": "vww_i8",
    "ad": "ad_i8",
    "mnist": "mnist-8",
}
"""Name → the quantized network of `measurements.certificates`."""

INPUTS = 100

BESIDE = Path(__file__).with_name("microcontrollers.json")
"""What another runtime takes: processor → network → instructions, memory, code and constants."""

INSTRUCTIONS, MEMORY_AND_ENDS, SIZE = "instructions", "memory", "code and constants"
"""The names of figures: of a call; bytes of the arena with inputs and outputs; bytes of code with constants."""

Figures = Mapping[str, Mapping[str, Mapping[str, int]]]


def without_casts(module: ModuleOp) -> ModuleOp:
    """A network on the qint level whose inputs and outputs are integers: the casts from and to floats are left out."""
    function = main_function(module)
    for argument in function.args:
        for use in list(argument.uses):
            if isinstance(cast := use.operation, QuantizeCastOp) and len(list(argument.uses)) == 1:
                (stored,) = (u.operation for u in cast.results[0].uses)
                assert isinstance(stored, StorageCastOp)
                uses = stored.results[0]
                argument = _retyped(argument, uses)
                for op in (stored, cast):
                    op.detach()
                    op.erase(safe_erase=False)
    end = function.get_return_op()
    assert end is not None
    for i, value in enumerate(end.operands):
        if isinstance(cast := value.owner, DequantizeCastOp):
            stored = cast.operands[0].owner
            assert isinstance(stored, StorageCastOp)
            end.operands[i] = stored.operands[0]
            for op in (cast, stored):
                op.detach()
                op.erase()
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in function.args], [value.type for value in end.operands]
    )
    return module


def _retyped(argument: SSAValue, stored: SSAValue) -> SSAValue:
    """The argument with the type of the integers that a cast stores, used where these were."""
    changed = Rewriter.replace_value_with_new_type(argument, stored.type)
    stored.replace_all_uses_with(changed)
    return changed


def inputs_of(shape: Sequence[int], dtype: np.dtype[Any], count: int) -> list[Array]:
    """Seeded inputs: the least number everywhere, the greatest, and random ones."""
    ends, rng = np.iinfo(dtype), np.random.default_rng(len(shape))
    random = [rng.integers(ends.min, ends.max, shape, dtype, endpoint=True) for _ in range(count)]
    for sample, number in zip(random, (ends.min, ends.max), strict=False):
        sample[...] = number
    return random


def ratios(executable: Executable, instructions: float, others: Mapping[str, int]) -> str:
    """Our instructions, memory, and code with constants, divided by those of another runtime."""
    sizes, signature = executable.sizes, executable.signature
    ends = sum(math.prod(s.shape) * s.dtype.itemsize for s in (*signature.inputs, *signature.outputs))
    ours = (instructions, sizes.arena + ends, sizes.code + sizes.weights)
    names = (INSTRUCTIONS, MEMORY_AND_ENDS, SIZE)
    return " ".join(f"{own / others[name]:6.2f}" for own, name in zip(ours, names, strict=True))


def run(
    name: str,
    make: Callable[[], ModuleOp],
    processors: Sequence[str],
    count: int,
    memory: str,
    beside: Figures,
) -> bool:
    """Prints a line for each processor; whether all of them give the reference's bytes."""
    module = without_casts(qmlir.to_integers(make()))
    reference = qmlir.reference(module)
    (x,) = reference.signature.inputs
    samples = inputs_of(x.shape, x.dtype, count)
    expected = [reference.run(sample) for sample in samples]
    all_same = True
    for processor in processors:
        begun = time.monotonic()
        executable = qmlir.compile(module, cpu=processor, memory=memory)
        found = programs.ran(executable, [[sample] for sample in samples])
        same = sum(
            all(np.array_equal(a, b) for a, b in zip(want, got, strict=True))
            for want, got in zip(expected, found.outputs, strict=True)
        )
        all_same = all_same and same == count
        sizes = executable.sizes
        counted = f"{round(sum(found.instructions) / count):12,}" if found.instructions else f"{'':>12}"
        stack = stack_bytes(executable.assembly(), executable.entry)
        line = f"{name:8} {processor:11} {same:4} of {count:<4} {sizes.code:8,} {sizes.weights:9,} {sizes.arena:8,}"
        line += f" {stack:6,}" if stack is not None else f" {'':6}"
        others = beside.get(processor, {}).get(name)
        end = f" {ratios(executable, sum(found.instructions) / count, others)}" if others else ""
        _say(f"{line} {counted} {time.monotonic() - begun:6.0f}{end}")
    return all_same


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="The same bits on every processor.")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"one of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--cpu", action="append", choices=list(PROCESSORS), help="a processor; all by default")
    parser.add_argument("--inputs", type=int, default=INPUTS, help=f"inputs of each network (default: {INPUTS})")
    parser.add_argument("--memory", choices=MEMORY, default="small", help="what the code is made for (default: small)")
    arguments = parser.parse_args(words)
    warnings.simplefilter("ignore")
    known = networks()
    chosen = [name for name in arguments.networks or NETWORKS if NETWORKS.get(name) in known]
    if not chosen:
        sys.stderr.write(f"there is none of the networks in {SHARED}\n")
        return 2
    sizes = f"{'code':>8} {'constants':>9} {'arena':>8} {'stack':>6}"
    beside = json.loads(BESIDE.read_bytes())
    runtime = beside.pop("runtime")
    of_other = f"   ratios to {runtime}: instructions, memory, code and constants"
    _say(f"{'network':8} {'processor':11} {'same bytes':>12} {sizes} {'instructions':>12} {'s':>6}{of_other}")
    processors, count, memory = arguments.cpu or list(PROCESSORS), arguments.inputs, arguments.memory
    results = [run(n, known[NETWORKS[n]], processors, count, memory, beside) for n in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
