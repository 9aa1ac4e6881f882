"""Random networks on a device: the simulator must give what the reference gives, and nothing may be refused.

outcome(seed, "nmp")    whether the network of a seed ran, and what is wrong with it
"""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.npu.c_model.library import compiler
from qmlir.backends.reference import evaluate
from qmlir.backends.simulated import Simulated
from qmlir.compiler import main_function
from qmlir.devices import load_device
from qmlir.devices.legality.requirements import requirements
from qmlir.devices.model.timeline import HOST
from qmlir.errors import PipelineError
from qmlir.ir.weights import WeightsMode, module_text
from tests.backends.npu.accounts import mistakes
from tests.graphs import SCHEMAS, Network, network

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Options:
    """How a network is quantized for a device.

    simplified  whether operations are fused first
    native      whether the host runs machine code, which takes as long to make as all else, or the reference
    quantizer   arguments of `qmlir.quantize`; without `target` the network is not quantized for the device that runs it
    """

    simplified: bool
    native: bool
    quantizer: dict[str, Any]


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with a network on a device.

    kind      `value`, `shape`, `type`, `cost` of its report, `simulator` where C and Python differ, or `error` where
              something was raised
    found     what differs, or was raised
    module    the float network with the ranges of its tensors, as text
    """

    seed: int
    device: str
    kind: str
    found: str
    options: Options
    module: str

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.device}: {self.kind}: {self.found}\n{self.options}\n{self.module}"


@dataclass(frozen=True)
class Outcome:
    """What came of a network.

    compared  whether it ran on the device: not if the device computes none of it, or nothing of it has a range
    mismatch  what is wrong with it
    """

    compared: bool
    mismatch: Mismatch | None = None


def outcome(seed: int, device: str) -> Outcome:
    """Whether the network of a seed ran on a device, and what is wrong with it."""
    rng = np.random.default_rng(seed)
    drawn = network(rng)
    options = options_for(rng, device)
    found = compare(drawn, options, seed, device)
    return found if found.mismatch is None else replace(found, mismatch=_reduced(drawn, options, found.mismatch))


def options_for(rng: np.random.Generator, device: str) -> Options:
    """Options of the quantizer: mostly what a device asks for, in any of its precisions; else any at all."""
    simplified, native = bool(rng.random() < 0.7), bool(rng.random() < 0.2)
    types = load_device(device).quant.types
    if rng.random() < 0.8:
        precision = {"i8": "int8", "u8": "uint8", "i16": "int16"}[types[int(rng.integers(len(types)))]]
        return Options(simplified, native, {"target": device, "precision": precision})
    schema, precision = SCHEMAS[int(rng.integers(4))], ("int8", "uint8", "int16")[int(rng.integers(3))]
    if rng.random() < 0.5:  # others leave little to some devices
        schema, precision = requirements(load_device(device)).schema, "int8"
    if precision == "uint8":  # others store negative numbers as signed integers
        schema = "asymmetric"
    return Options(
        simplified, native, {"schema": schema, "precision": precision, "per_channel": bool(rng.random() < 0.5)}
    )


def compare(drawn: Network, options: Options, seed: int, device: str) -> Outcome:
    """Quantizes and compiles a network and compares what the simulator and the reference make of its samples."""
    module = drawn.observed(options.simplified)

    def wrong(kind: str, found: str) -> Outcome:
        return Outcome(True, Mismatch(seed, device, kind, found, options, module_text(module, WeightsMode.INLINE)))

    try:
        quantized = qmlir.quantize(module, **options.quantizer)
    except PipelineError:  # no observer of this network holds a range
        return Outcome(compared=False)
    except Exception:
        return wrong("error", f"in the quantizer: {traceback.format_exc(limit=-5)}")
    try:
        expected = _expected(quantized, drawn.samples, device)
        executable = qmlir.compile(quantized, target=device)
        if not options.native:
            executable = replaced_host(executable)
        executable = executable.with_simulator("python")
        results = _simulated(executable, drawn.samples)
    except PipelineError as error:
        if "must compute some operation of the network" in str(error):
            return Outcome(compared=False)
        return wrong("error", traceback.format_exc(limit=-5))
    except Exception:
        return wrong("error", traceback.format_exc(limit=-5))
    for sample, (theirs, ours) in enumerate(zip(expected, results, strict=True)):
        for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            if (difference := _difference(a, b)) is not None:
                kind, found = difference
                return wrong(kind, f"output {number} of sample {sample}: {found}")
    found = _wrong_beside(executable, drawn.samples, results)
    return Outcome(compared=True) if found is None else wrong(*found)


def _expected(quantized: ModuleOp, samples: Sequence[Sequence[Array]], device: str) -> list[list[Array]]:
    reference = qmlir.reference(quantized, target=device)
    names = [spec.name for spec in reference.signature.inputs]
    return [reference.run(dict(zip(names, sample, strict=True))) for sample in samples]


def replaced_host(executable: Simulated) -> Simulated:
    """The same with the reference in place of the host's machine code."""
    given = executable.program, executable.device, executable.routines
    return Simulated(*given, lambda routine: lambda inputs: evaluate(main_function(routine), inputs))


def _simulated(executable: Simulated, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
    names = [spec.name for spec in executable.signature.inputs]
    return executable.run_all([dict(zip(names, sample, strict=True)) for sample in samples])


def _wrong_beside(
    executable: Simulated, samples: Sequence[Sequence[Array]], results: Sequence[Sequence[Array]]
) -> tuple[str, str] | None:
    """What is wrong where the results in Python are right: those of the model in C, or the costs."""
    in_c = _simulated(executable.with_simulator("c"), samples) if compiler() is not None else results
    for sample, (theirs, ours) in enumerate(zip(results, in_c, strict=True)):
        if any(_difference(a, b) for a, b in zip(theirs, ours, strict=True)):
            return "simulator", f"sample {sample} has other results in C than in Python"
    costs = _wrong_costs(executable)
    return ("cost", "; ".join(costs)) if costs else None


def _wrong_costs(executable: Simulated) -> list[str]:
    """What is wrong with the report of the last call."""
    report = executable.report
    assert report is not None
    other = [] if report == executable.predicted else ["another report was predicted"]
    called = {layer.name for layer in report.layers if HOST in layer.asked}
    computing = {layer.name for layer in report.layers if len(layer.asked) > 1}
    return [
        *mistakes(report),
        *other,
        *(f"{name} is a call and has other costs" for name in sorted(called & computing)),
    ]


def _difference(expected: Array, got: Array) -> tuple[str, str] | None:
    """Of what kind two arrays differ, and how."""
    if np.shape(got) != np.shape(expected):
        return "shape", f"{np.shape(got)} for {np.shape(expected)}"
    if np.asarray(got).dtype != np.asarray(expected).dtype:
        return "type", f"{np.asarray(got).dtype} for {np.asarray(expected).dtype}"
    if np.asarray(got).tobytes() == np.asarray(expected).tobytes():
        return None
    differ = ~((got == expected) | ((got != got) & (expected != expected)))
    return "value", f"{int(differ.sum())} of {differ.size} differ" if differ.any() else "zeros of another sign"


def _reduced(drawn: Network, options: Options, mismatch: Mismatch) -> Mismatch:
    """The mismatch of the first of a network's operations of whose result alone something is wrong."""
    for number in range(drawn.size):
        try:
            found = compare(drawn.ending_with(number), options, mismatch.seed, mismatch.device).mismatch
        except Exception:  # such as an output that nothing computes: the whole network says what is wrong
            continue
        if found is not None and found.kind == mismatch.kind:
            return found
    return mismatch
