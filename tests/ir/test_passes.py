"""Pipelines of names, classes, objects and pairs; their text, which qmlir-opt takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass

import qmlir
from qmlir.cli import opt
from qmlir.errors import OptionError
from qmlir.ir.option_parsing import build_pass, parse_pipeline
from qmlir.ir.passes import PASSES, Step, option, pass_class
from qmlir.transforms.nn.simplify import SimplifyPass
from qmlir.transforms.quantize.quantize import QuantizePass


@dataclass(frozen=True)
class SignPass(ModulePass):
    """Writes a name on the module."""

    name = "sign"
    by: str
    times: tuple[int, ...] = option((1,), "how often")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["signed"] = StringAttr(self.by)


@pytest.mark.parametrize(
    "steps",
    [
        ("simplify", ("quantize", {"schema": "symmetric"})),
        (SimplifyPass, (QuantizePass, {"schema": "symmetric"})),
        (SimplifyPass(), QuantizePass(schema="symmetric")),
        ("simplify", [QuantizePass, {"schema": "symmetric"}]),
    ],
)
def test_pipelines_take_names_classes_pairs_and_passes(steps: tuple[Step, ...], root: Path) -> None:
    pipeline = qmlir.Pipeline(*steps)
    assert repr(pipeline) == "<Pipeline builtin.module(simplify,quantize{schema=symmetric})>"
    module = qmlir.load(root / "examples/digits/model.mlir")
    assert {e.outcome for e in qmlir.decisions(pipeline(module))} == {"quantized"}
    assert not qmlir.decisions(module)  # the pipeline changed a copy


def test_xdsls_passes_and_ones_own(root: Path) -> None:
    pipeline = qmlir.Pipeline(CanonicalizePass, "cse", SignPass("me"), (SignPass, {"by": "you", "times": (1, 2)}))
    assert str(pipeline) == 'builtin.module(canonicalize,cse,sign{by=me},sign{by=you times="1,2"})'
    assert pipeline(qmlir.load(root / "examples/digits/model.mlir")).attributes["signed"] == StringAttr("you")


def test_the_text_of_a_pipeline_is_the_command_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = root / "examples/digits/model.mlir"
    pipeline = qmlir.Pipeline(
        "simplify", ("quantize", {"rules": "kind=conv2d precision=int16; layer=last precision=int16"})
    )
    assert opt.main([f"--pass-pipeline={pipeline}", str(model)]) == 0
    assert capsys.readouterr().out.strip() == str(pipeline(qmlir.load(model))).strip()


ODD = ("", "a b", "it's", 'say "x"', "a,b", "{x}", "x=1", "äö", "/tmp/a.b", "(x)")


@pytest.mark.parametrize("value", ODD)
def test_any_text_survives_as_an_option(value: str) -> None:
    pipeline = qmlir.Pipeline(("apply-profile", {"file": value}), SignPass(value))
    first, second = parse_pipeline(str(pipeline))
    assert build_pass(first, pass_class("apply-profile")) == pipeline.passes[0]
    assert build_pass(second, SignPass) == pipeline.passes[1]


def test_every_pass_has_a_text() -> None:
    for name in PASSES:
        cls = pass_class(name)
        if not any(f.default is f.default_factory for f in cls.__dataclass_fields__.values()):
            assert str(qmlir.Pipeline(cls)) == f"builtin.module({name})"


def test_what_is_no_pass_is_refused() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda module: None, "derive a class from xdsl.passes.ModulePass"),
        (int, "takes names of passes, classes of passes"),
        (("simplify", 3), "takes names of passes"),
        (3, "got 3"),
        (SignPass, "sign: needs the option by"),
        ((SignPass, {"buy": "x"}), "sign buy: there is no such option; did you mean by?"),
        ((SignPass, {"by": 3}), "sign by: must be of type str, got 3 of type int"),
        ((QuantizePass, {"calibration": "klm"}), "must be one of auto, minmax"),
    ]
    for step, said in wrong:
        with pytest.raises(OptionError) as raised:
            qmlir.Pipeline(cast(Step, step))
        assert said in str(raised.value)
