"""Pass options: text by the field's type, and errors that say what was meant."""

from dataclasses import dataclass
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.errors import OptionError
from qmlir.ir.option_parsing import PassSpec, build_pass, parse_options, parse_pipeline
from qmlir.ir.passes import option


@dataclass(frozen=True)
class EveryTypePass(ModulePass):
    """Takes an option of each type. And does nothing."""

    name = "every-type"
    flag: bool = option(False, "yes or no")
    count: int = option(3, "how many")
    ratio: float = option(0.5, "how much")
    schema: Literal["symmetric", "asymmetric"] = option("asymmetric", "how")
    file: str | None = option(None, "where")
    axes: tuple[int, ...] = option((), "which")
    names: tuple[str, ...] = option((), "who")
    bits: Literal[8, 16] = option(8, "width")
    span: tuple[float, float] = option((0.0, 1.0), "from, to")
    limit: int | float | None = option(None, "at most")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def build(text: str) -> EveryTypePass:
    made = build_pass(parse_options("every-type", text), EveryTypePass)
    assert isinstance(made, EveryTypePass)
    return made


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("flag", "flag", True),
        ("flag=false", "flag", False),
        ("count=-12", "count", -12),
        ("count=0x10", "count", 16),
        ("ratio=1e-3", "ratio", 1e-3),
        ("ratio=2", "ratio", 2.0),
        ("schema=symmetric", "schema", "symmetric"),
        ("file=~/a.b/c:d-e.yaml", "file", "~/a.b/c:d-e.yaml"),
        ('file="with space.yaml"', "file", "with space.yaml"),
        ("file='x=1'", "file", "x=1"),
        ("file=none", "file", None),
        ("axes=1,2,3", "axes", (1, 2, 3)),
        ("axes=", "axes", ()),
        ("axes={1,2}", "axes", (1, 2)),
        ("names=conv1,a.b/c", "names", ("conv1", "a.b/c")),
        ("bits=16", "bits", 16),
        ("span=-1,6.5", "span", (-1.0, 6.5)),
        ("limit=7", "limit", 7),
        ("limit=0.5", "limit", 0.5),
    ],
)
def test_value_follows_the_annotation(text: str, field: str, value: object) -> None:
    got = getattr(build(text), field)
    assert (got, type(got)) == (value, type(value))


def test_several_options_and_the_spelling_of_names() -> None:
    spec = parse_options("p", ' per-channel=true  bin_count=3 x="a b" ')
    assert spec == PassSpec("p", {"per_channel": "true", "bin_count": "3", "x": "a b"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuont=3", '--every-type: has no option "cuont"; did you mean count?'),
        ("count=x", "--every-type=count: must be an integer, got x"),
        ("count", "--every-type=count: must be an integer, got true"),
        ("flag=maybe", "--every-type=flag: must be true or false, got maybe"),
        ("ratio=", "--every-type=ratio: must be a number, got nothing"),
        ("schema=symetric", "must be one of symmetric, asymmetric, got symetric; did you mean symmetric"),
        ("bits=4", "--every-type=bits: must be one of 8, 16, got 4"),
        ("axes=1,x", "--every-type=axes: must be an integer, got x"),
        ("span=1", "--every-type=span: needs 2 values separated by commas, got 1"),
        ("limit=x", "--every-type=limit: must be a number, got x"),
        ("count=1, ratio=2", "options are separated by spaces, not commas, got count=1, ratio=2; drop the ,"),
        ("count=1 count=2", "--every-type: the option count is given twice"),
        ('file="open', '--every-type: options are name=value, separated by spaces, got file="open'),
    ],
)
def test_wrong_option(text: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        build(text)
    assert message in str(error.value)


def test_pipeline_is_nested_text() -> None:
    specs = parse_pipeline('builtin.module(a{x=1 y="b,(c"}, func.func(b , any(c{z=1,2})),d)')
    assert specs == [
        PassSpec("a", {"x": "1", "y": "b,(c"}),
        PassSpec("b", {}),
        PassSpec("c", {"z": "1,2"}),
        PassSpec("d", {}),
    ]


@pytest.mark.parametrize("text", ["a(b)", "a{x=1", "a)b", "a b", "a{x='1}"])
def test_wrong_pipeline(text: str) -> None:
    with pytest.raises(OptionError, match=r"^--pass-pipeline"):
        parse_pipeline(text)
