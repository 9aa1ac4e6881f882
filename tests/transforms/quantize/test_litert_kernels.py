"""Float networks that follow LiteRT and are quantized here: its integers where it has a kernel, else the default's.

Each operation is a network of its own, in every way of storing numbers and under each of LiteRT's numerics. Its result
is held to the float one, by the SQNR that the default numerics reach, and, exported, to what LiteRT computes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import main_function
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.policies.ledger import decisions
from qmlir.policies.runtimes import follow
from tests.backends.quantized_text import network
from tests.conftest import crossed
from tests.frontends.tflite.files import RESOLVERS, interpreter, run

Array = np.ndarray

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPE = (4, 48)
WORSE = 6.0
"""Decibels that LiteRT's rounding may cost: its square root truncates, its lines are some steps off."""

LINES = {"exp", "log", "gelu", "rsqrt"}
"""Functions that LiteRT interpolates between breakpoints far apart, in 16 bits with zero points of 0."""


@dataclass(frozen=True)
class Subject:
    """An operation on floats.

    attributes  as text
    low, high   of its first operand
    second      the range of its second operand, if it has one
    """

    operation: str
    attributes: str = ""
    low: float = -4.0
    high: float = 6.0
    second: tuple[float, float] | None = None

    def __str__(self) -> str:
        return self.operation

    def samples(self) -> list[Array]:
        """Its operands."""
        random = np.random.default_rng(0)
        ranges = [(self.low, self.high), *([self.second] if self.second else [])]
        return [random.uniform(low, high, SHAPE).astype(np.float32) for low, high in ranges]


SUBJECTS = (
    *map(Subject, "abs neg sign floor ceil round exp erf sigmoid tanh gelu hard_swish relu softplus softsign".split()),
    *map(Subject, "mish sin cos atan".split()),
    *(Subject(name, low=0.05) for name in ("sqrt", "rsqrt", "log", "reciprocal")),
    Subject("gelu", "{tanh = true}"),
    Subject("leaky_relu", "{alpha = 0.2 : f32}"),
    Subject("elu", "{alpha = 1.0 : f32}"),
    Subject("celu", "{alpha = 0.5 : f32}"),
    Subject("selu", "{alpha = 1.67 : f32, gamma = 1.05 : f32}"),
    Subject("swish", "{alpha = 1.0 : f32}"),
    Subject("hard_sigmoid", "{alpha = 0.2 : f32, beta = 0.5 : f32}"),
    Subject("clamp", "{min = 0.0 : f32, max = 6.0 : f32}"),
    *(Subject(name, second=(-2.0, 2.5)) for name in ("add", "sub", "mul", "maximum", "minimum", "prelu",
                                                     "squared_difference")),
    *(Subject(name, "{axis = 1 : i64}") for name in ("softmax", "log_softmax")),
    Subject("lp_normalization", "{axis = 1 : i64, p = 2 : i64}"),
)  # fmt: skip


def floats(subject: Subject) -> ModuleOp:
    """The operation on floats, with the ranges of its samples."""
    tensor = "tensor<" + "x".join(map(str, SHAPE)) + "xf32>"
    arrays = subject.samples()
    names = ["a", "b"][: len(arrays)]
    arguments = ", ".join(f'%{n}: {tensor} {{qmlir.name = #qmlir.name<tensors ["{n}"]>}}' for n in names)
    operands, types = ", ".join(f"%{n}" for n in names), ", ".join([tensor] * len(names))
    body = f"%y = nn.{subject.operation} {operands} {subject.attributes} : {types} -> {tensor}"
    plain = network(f"func.func @main({arguments}) -> {tensor} {{ {body} func.return %y : {tensor} }}")
    (result,) = qmlir.reference(plain).run(dict(zip(names, arrays, strict=True)))
    seen = "\n".join(
        f'calib.observe %{n} {{name = "{n}", range = [{float(a.min())!r}, {float(a.max())!r}]}} : {tensor}'
        for n, a in zip([*names, "y"], [*arrays, result], strict=True)
    )
    return network(f"func.func @main({arguments}) -> {tensor} {{ {body}\n{seen}\nfunc.return %y : {tensor} }}")


def sqnr(expected: Array, found: Array) -> float:
    noise = float(((expected - found).astype(np.float64) ** 2).sum())
    return 10 * np.log10(float((expected.astype(np.float64) ** 2).sum()) / max(noise, 1e-30))


def unlike(module: ModuleOp) -> bool:
    """Whether the ledger says that an operation is not rounded as LiteRT rounds."""
    return any("LiteRT has no kernel" in entry.reason for entry in decisions(module))


FORMS = {"int8": "asymmetric", "uint8": "asymmetric", "int16": "asymmetric", "int16 symmetric": "symmetric"}
"""Precision and schema: only the last has zero points of 0 in 16 bits."""


@crossed({"subject": SUBJECTS, "form": FORMS})
def test_quantized_here(subject: Subject, form: str, tmp_path: Path) -> None:
    module, arrays, schema = floats(subject), subject.samples(), FORMS[form]
    inputs = dict(zip(["a", "b"], arrays, strict=False))
    (expected,) = qmlir.reference(module).run(inputs)
    default = qmlir.quantize(module, schema=schema, precision=form.partition(" ")[0])
    least = sqnr(expected, qmlir.reference(default).run(inputs)[0]) - WORSE
    for numerics in RESOLVERS:
        followed = module.clone()
        follow(followed, numerics)
        quantized = qmlir.quantize(followed, schema=schema, precision=form.partition(" ")[0])
        (found,) = qmlir.reference(quantized).run(inputs)
        if (step := step_of(quantized)) is None:
            np.testing.assert_array_equal(found, expected)
            continue
        if form != "int16 symmetric" or subject.operation not in LINES:
            assert sqnr(expected, found) >= min(least, 80)
        path = tmp_path / f"{numerics}.tflite"
        try:
            qmlir.export(quantized, path, format="tflite")
            theirs = run(interpreter(str(path), numerics), arrays)[0]
        except (UnsupportedError, RuntimeError, ValueError):
            assert lacks_file(subject, form, numerics)
            continue
        steps = np.rint(np.abs(theirs.astype(np.float64) - found) / step)
        assert steps.max() <= unlike(quantized)


def step_of(module: ModuleOp) -> float | None:
    """The scale of a network's result; None where its operation has no integer form and stays on floats."""
    returned = main_function(module).get_return_op()
    assert returned is not None
    cast = returned.operands[0].owner
    return uniform(cast.input).scale if isinstance(cast, DequantizeCastOp) else None


def lacks_file(subject: Subject, form: str, numerics: str) -> bool:
    """LiteRT has no zero points in 16 bits, no erf and atan, and its reference no ELU, CEIL and ROUND at all."""
    absent = ("erf", "atan") if form == "int16 symmetric" else ()
    reference = ("elu", "celu", "selu", "ceil", "round", "sign") if numerics == "litert-reference" else ()
    return form == "int16" or subject.operation in (*absent, *reference)
