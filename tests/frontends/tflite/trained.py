"""Trained TFLite models: what qmlir computes beside what LiteRT computes, outputs and all tensors between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.ir import Operation, SSAValue

import qmlir
from qmlir.compiler import main_function
from qmlir.ir.facts import NAME
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.signature import TensorSpec
from tests.frontends.tflite.files import RESOLVERS, interpreter, run

Array = np.ndarray

QUANTIZED = (
    "hello_world_int8",
    "micro_speech_quantized",
    "str_ww_i8",
    "ad_fcae_i8",
    "kws_dscnn_i8",
    "resnet8_cifar_i8",
    "vww_mbv1_i8",
    "mobilenet_v1_0.25_224_u8",
    "mobilenet_v2_1.0_224_u8",
    "deeplabv3_mnv2_dm05_pascal_quant",
)
"""Models that are quantized throughout, the cheapest first."""

LARGE = QUANTIZED[-2:]

FEWER = {"deeplabv3_mnv2_dm05_pascal_quant": 20}
"""How many inputs `make conformance` runs of a model, where not 200."""

FLOAT = (
    "hello_world_float",
    "ad_fcae_f32",
    "resnet8_cifar_f32",
    "vww_mbv1_f32",
    "mobilenet_v1_0.25_224_f32",
)
"""Models in floats throughout. Not here: kws_dscnn_f32 has int8 weights, beside which LiteRT quantizes activations."""


def inputs(spec: TensorSpec, count: int) -> list[Array]:
    """Random inputs: of the whole range, and, every other one, of its middle, which saturates less."""
    random = np.random.default_rng(0)
    if spec.dtype == np.float32:
        return [random.standard_normal(spec.shape).astype(np.float32) for _ in range(count)]
    limits = np.iinfo(spec.dtype)
    middle, width = (limits.max + limits.min + 1) / 2, limits.max - limits.min + 1
    found: list[Array] = []
    for index in range(count):
        real = random.uniform(-0.5, 0.5, spec.shape) if index % 2 == 0 else random.standard_normal(spec.shape) / 16
        found.append(np.clip(np.rint(middle + width * real), limits.min, limits.max).astype(spec.dtype))
    return found


@dataclass(frozen=True)
class Difference:
    """How many of so many integers differ, how many by more than one step, and by how many steps at most."""

    differing: int = 0
    compared: int = 0
    far: int = 0
    most: int = 0

    def __add__(self, other: "Difference") -> "Difference":
        return Difference(
            self.differing + other.differing,
            self.compared + other.compared,
            self.far + other.far,
            max(self.most, other.most),
        )

    def __str__(self) -> str:
        return f"{self.differing} of {self.compared}" + (f", by {self.most} at most" if self.differing else "")

    @staticmethod
    def of(got: Array, want: Array) -> "Difference":
        """Two tensors of integers; their shapes may differ by how they count dimensions of size 1."""
        steps = np.abs(got.astype(np.int64).reshape(-1) - want.astype(np.int64).reshape(-1))
        return Difference(int(np.count_nonzero(steps)), steps.size, int((steps > 1).sum()), int(steps.max(initial=0)))


def differing_outputs(path: Path, numerics: str, count: int) -> Difference:
    """Outputs of the compiled network and of LiteRT; `default` is held to what LiteRT does by default."""
    machine = qmlir.compile(qmlir.load(path, numerics=numerics))
    theirs = interpreter(str(path), numerics if numerics in RESOLVERS else "litert-xnnpack")
    total = Difference()
    for x in inputs(machine.signature.inputs[0], count):
        for got, want in zip(machine.run(x), run(theirs, [x]), strict=True):
            total += Difference.of(got, want)
    return total


def differing_tensors(path: Path, numerics: str, count: int) -> dict[str, Difference]:
    """All tensors that both have, by name."""
    module = qmlir.load(path, numerics=numerics)
    names = return_all(module)
    machine = qmlir.compile(module)
    theirs = Interpreter(
        str(path), experimental_op_resolver_type=RESOLVERS[numerics], experimental_preserve_all_tensors=True
    )
    theirs.allocate_tensors()
    places = {detail["name"]: detail["index"] for detail in theirs.get_tensor_details()}
    found: dict[str, Difference] = {}
    for x in inputs(machine.signature.inputs[0], count):
        run(theirs, [x])
        for name, got in zip(names, machine.run(x), strict=True):
            if name in places:
                found[name] = found.get(name, Difference()) + Difference.of(got, theirs.get_tensor(places[name]))
    return found


def return_all(module: ModuleOp) -> Sequence[str]:
    """Makes a network return each of its computed tensors that has a name; the names."""
    function = main_function(module)
    (*body, end) = function.body.block.ops
    named = [pair for op in body if op.operands for pair in _named(op)]
    end.operands = [value for _, value in named]
    arguments = [a.type for a in function.body.block.args]
    function.function_type = FunctionType.from_lists(arguments, [value.type for _, value in named])
    results = [DictionaryAttr(NAME.entry(NameAttr.of(tensors=[f"result{i}"]))) for i in range(len(named))]
    function.res_attrs = ArrayAttr(results)
    return [name for name, _ in named]


def _named(op: Operation) -> list[tuple[str, SSAValue]]:
    names = iter(names_of(op).tensors)
    return [(name, value) for name, value in zip(names, op.results, strict=False) if name]


def first_of(found: Mapping[str, Difference]) -> str:
    """The first tensor that differs, for a message."""
    return next((f"{name}: {difference}" for name, difference in found.items() if difference.differing), "")
