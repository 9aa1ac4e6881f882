"""Passes as `qmlir-opt --help` lists them: their options, their names, and what the classes say of themselves."""

import pytest

from qmlir.cli.arguments import parse_arguments
from qmlir.cli.options import option_infos
from qmlir.cli.pass_list import pass_table, read_pass
from qmlir.errors import OptionError
from qmlir.ir.passes import PASSES, pass_class
from tests.ir.test_option_parsing import EveryTypePass


@pytest.mark.parametrize("name", PASSES)
def test_the_listing_says_what_the_class_says(name: str) -> None:
    summary, options = read_pass(PASSES[name])
    assert options == option_infos(pass_class(name))
    if not PASSES[name].startswith("xdsl."):
        assert summary
        assert all(o.help for o in options)
        assert pass_class(name).name == name


def test_the_listing_has_every_pass() -> None:
    assert pass_table() == PASSES


def test_the_listing_of_each_type() -> None:
    summary, options = read_pass(f"{EveryTypePass.__module__}:EveryTypePass")
    assert summary == "Takes an option of each type"
    assert options == option_infos(EveryTypePass)


@pytest.mark.parametrize("name", [n for n, r in PASSES.items() if r.startswith("qmlir.lowering.") and "-to-" in n])
def test_conversions_answer_to_upstreams_name(name: str) -> None:
    assert pass_class(f"convert-{name}") is pass_class(name)
    request = parse_arguments([f"--convert-{name}", f"--mlir-print-ir-after=convert-{name}"])
    assert request.passes == parse_arguments([f"--{name}"]).passes
    assert request.watch.after == {name}


def test_only_conversions_have_two_names() -> None:
    assert parse_arguments(["--convert-scf-to-cf"]).passes[0].name == "convert-scf-to-cf"
    for name in ("convert-simplify", "convert-observers-to-results", "convert-qint-to-nothing"):
        with pytest.raises(OptionError, match="there is no such pass"):
            pass_class(name)
