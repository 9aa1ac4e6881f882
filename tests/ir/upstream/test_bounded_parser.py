"""Hostile text: a typed error at the place it is about, soon, or a result."""

import time
from io import StringIO

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from qmlir.cli.diagnostics import diagnostic_of
from qmlir.ir.context import make_context
from qmlir.ir.source import SourceError, parse_text
from qmlir.ir.upstream.dense import SPLAT_LIMIT, Splat
from qmlir.ir.upstream.parser import EXPANDED, NESTING, RANK, WIDTH
from qmlir.ir.weights import WeightsMode, module_text

DEEP = 2000
DIGITS = "9" * 5000


def parse(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "f.mlir")


def refused(text: str) -> str:
    with pytest.raises(SourceError) as refusal:
        parse(text)
    return str(refusal.value)


def attribute(text: str) -> str:
    return f"module attributes {{test.x = {text}}} {{}}"


def nested(opening: str, inside: str, closing: str, depth: int = DEEP) -> str:
    return opening * depth + inside + closing * depth


def aliases(count: int, mark: str, first: str, next: str) -> str:
    """A chain of aliases, each of which uses the one before it twice."""
    lines = [f"{mark}0 = {first}", *(f"{mark}{i} = {next.format(f'{mark}{i - 1}')}" for i in range(1, count))]
    return "\n".join(lines) + "\n"


NESTED = {
    "call sites": f"module {{}} loc({nested('callsite(', 'unknown', ' at unknown)')})",
    "fused locations": f"module {{}} loc({nested('fused[', 'unknown', ']')})",
    "named locations": "module {} loc(" + nested('"a"(', "unknown", ")") + ")",
    "locations by alias": aliases(DEEP, "#loc", "loc(unknown)", 'loc("a"({}))') + f"module {{}} loc(#loc{DEEP - 1})",
    "locations by alias behind": f"module {{}} loc(#loc{DEEP - 1})\n"
    + "\n".join(reversed(aliases(DEEP, "#loc", "loc(unknown)", 'loc("a"({}))').splitlines())),
    "regions": nested("module {", "", "}"),
    "generic regions": nested('"builtin.module"() ({', "", "}) : () -> ()"),
    "arrays": attribute(nested("[", "", "]")),
    "dictionaries": attribute(nested("{a = ", "1", "}")),
    "tuples": f"func.func private @f({nested('tuple<', 'i32', '>')})",
    "functions": f"func.func private @f({nested('() -> (', '', ')')})",
    "constants": attribute(f"dense<{nested('[', '1', ']')}> : tensor<1xi32>"),
    "complex constants": attribute(f"dense<{nested('[', '(1, 1)', ']')}> : tensor<1xcomplex<i32>>"),
    "brackets of maps": attribute(f"affine_map<(d0) -> ({nested('(', 'd0', ')')})>"),
    "terms of maps": attribute(f"affine_map<(d0) -> ({' + '.join(['d0'] * DEEP)})>"),
    "signs of maps": attribute(f"affine_map<(d0) -> ({'-' * DEEP}d0)>"),
    "types by alias": aliases(DEEP, "!a", "i32", "tuple<{}>") + f"func.func private @f(!a{DEEP - 1})",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_deep_nesting(text: str) -> None:
    assert "nested" in refused(text)


@pytest.mark.parametrize("kind", ["regions", "arrays", "tuples"])
def test_what_may_be_nested_can_be_read_verified_cloned_and_printed(kind: str) -> None:
    depth = NESTING - 3
    text = {
        "regions": nested("module {", "", "}", depth),
        "arrays": attribute(nested("[", "", "]", depth)),
        "tuples": f"func.func private @f({nested('tuple<', 'i32', '>', depth)})",
    }[kind]
    module = parse(text)
    module.verify()
    assert str(parse(str(module.clone()))) == str(module)
    Printer(StringIO(), print_generic_format=True).print_op(module)


NUMBERS = {
    "an integer": attribute(DIGITS),
    "a hexadecimal integer": attribute(f"0x{DIGITS}"),
    "a size": f"func.func private @f(tensor<{DIGITS}xf32>)",
    "a width": f"func.func private @f(i{DIGITS})",
    "an element": attribute(f"dense<{DIGITS}> : tensor<1xi32>"),
    "an element of an array": attribute(f"array<i32: {DIGITS}>"),
    "a line": f'module {{}} loc("a":{DIGITS}:1)',
    "a number of results": f'%0:{DIGITS} = "test.op"() : () -> ()',
    "a number of a result": f'"test.op"(%0#{DIGITS}) : (i32) -> ()',
    "a term of a map": attribute(f"affine_map<(d0) -> (d0 + {DIGITS})>"),
    "a zero point": f"func.func private @f(tensor<1x!quant.uniform<i8:f32, 0.1:{DIGITS}>>)",
    "a bound of storage": f"func.func private @f(tensor<1x!quant.uniform<i8<-{DIGITS}:1>:f32, 0.1>>)",
}


@pytest.mark.parametrize("text", NUMBERS.values(), ids=NUMBERS)
def test_long_numbers(text: str) -> None:
    message = refused(text)
    assert "at most 1000 digits" in message or "bits" in message


def test_sizes_widths_and_ranks_have_bounds() -> None:
    assert "at most 9223372036854775807" in refused("func.func private @f(tensor<9223372036854775808xf32>)")
    assert f"1 to {WIDTH} bits" in refused("module attributes {test.x = 5 : i99999999999} {}")
    assert "digits 0 to 9" in refused(attribute("²"))
    for kind in ("tensor", "memref", "vector"):
        assert f"at most {RANK} dimensions" in refused(f"func.func private @f({kind}<{'1x' * 100_000}f32>)")


BOMBS = {
    "types": aliases(40, "!a", "i32", "tuple<{0}, {0}>") + "func.func private @f(!a39)",
    "attributes": aliases(40, "#a", "[1, 2]", "[{0}, {0}]") + attribute("#a39"),
    "locations": aliases(40, "#loc", "loc(unknown)", "loc(fused[{0}, {0}])") + "module {} loc(#loc39)",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_aliases_that_stand_for_too_much(text: str) -> None:
    assert "out of proportion" in refused(text)


def test_one_large_alias_many_times() -> None:
    once = "#a0 = [" + ", ".join(["1"] * 200) + "]\n"
    uses = EXPANDED // len(once) + 2
    assert "out of proportion" in refused(once + attribute("[" + ", ".join(["#a0"] * uses) + "]"))


UNCLOSED = {
    "letters": attribute('"' + "a" * 60),
    "words": attribute('"' + "ab " * 20_000 + "\n"),
    "escapes": '"' + r"\n" * 30_000,
    "quotes": 'module {} loc(#loc0)"' + r"\"" * 30_000,
    "quotes before resources": '"' + r"\"" * 30_000 + "{-#",
    "quotes in resources": 'module {} {-# "' + r"\"" * 30_000,
}


@pytest.mark.parametrize("text", UNCLOSED.values(), ids=UNCLOSED)
def test_a_missing_quote_is_reported_at_once(text: str) -> None:
    start = time.process_time()
    assert "f.mlir:1:" in refused(text)
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"a\n\t\\\"b", 'a\n\t\\"b'),
        (r"\41\5a", "AZ"),
        (r"\\AB", r"\AB"),
        (r"\\\C3\BC", "\\ü"),
        ("ü\\n", "ü\n"),
        ("", ""),
    ],
)
def test_strings_stand_for_the_same_as_in_xdsl(written: str, read: str) -> None:
    held = parse(attribute(f'"{written}"')).attributes["test.x"]
    assert getattr(held, "data", None) == read


def test_a_long_string_takes_time_in_proportion() -> None:
    start = time.process_time()
    parse(attribute('"' + r"\C3\BC" * 300_000 + '"'))
    assert time.process_time() - start < 3


# -- splats ------------------------------------------------------------------------------------------------------

HUGE = "4294967296"
SPLATS = {
    "zero": (f"dense<0.0> : tensor<{HUGE}xf32>", "dense<0.000000e+00>"),
    "one": (f"dense<1.0> : tensor<{HUGE}xf32>", "dense<1.000000e+00>"),
    "digits": (f'dense<"0x0000803F"> : tensor<{HUGE}xf32>', "dense<1.000000e+00>"),
    "a NaN of its own": (f"dense<0x7F800001> : tensor<{HUGE}xf32>", 'dense<"0x0100807F">'),
    "truth": (f'dense<"0xFF"> : tensor<{HUGE}xi1>', "dense<true>"),
    "a narrow integer": (f"dense<-3> : tensor<{HUGE}xi4>", "dense<-3>"),
    "complex": (f"dense<(1.0, 2.0)> : tensor<{HUGE}xcomplex<f32>>", "dense<(1.000000e+00,2.000000e+00)>"),
    "a vector": (f"dense<7> : vector<{HUGE}xi8>", "dense<7>"),
    "as many as there can be": ("dense<7> : tensor<9223372036854775807xi8>", "dense<7>"),
}


@pytest.mark.parametrize(("text", "printed"), SPLATS.values(), ids=SPLATS)
@pytest.mark.parametrize("mode", [WeightsMode.INLINE, WeightsMode.ELIDED, WeightsMode.RESOURCE])
def test_splats_stay_splats(text: str, printed: str, mode: WeightsMode) -> None:
    module = parse(f"%0 = arith.constant {text}")
    module.verify()
    assert printed in module_text(module, mode)
    assert printed.startswith('dense<"') or printed in str(module)
    assert str(parse(module_text(module, mode))) == str(module)


def test_constants_of_one_value_are_equal_however_they_are_written() -> None:
    count = SPLAT_LIMIT // 4 + 1
    texts = (f"dense<1.0> : tensor<{count}xf32>", f'dense<"0x{"0000803F" * count}"> : tensor<{count}xf32>')
    one, other = (
        next(op for op in parse(f"%0 = arith.constant {t}").walk() if isinstance(op, ConstantOp)) for t in texts
    )
    assert isinstance(one.value, Splat)
    assert one.value == other.value
    assert hash(one.value) == hash(other.value)


REFUSED_CONSTANTS = {
    "more elements than can be": ("dense<1.0> : tensor<9223372036854775807x2xf32>", "at most 9223372036854775807"),
    "a list of another shape": (f"dense<[1.0]> : tensor<{HUGE}xf32>", "Shape mismatch"),
    "an empty list of another shape": (f"dense<[]> : tensor<{HUGE}x0xf32>", "Shape mismatch"),
    "a wide bit pattern": ("0x1FFFFFFFFFF : f32", "int too big"),
    "weights beside a 0": (
        "#qmlir.weights<tensor<0x9223372036854775807x9223372036854775807xf32>, []>",
        "tensor<0x9223372036854775807x9223372036854775807xf32>",
    ),
}


@pytest.mark.parametrize(("text", "says"), REFUSED_CONSTANTS.values(), ids=REFUSED_CONSTANTS)
def test_constants_that_cannot_be(text: str, says: str) -> None:
    assert says in refused(attribute(text))


def test_a_splat_too_large_for_an_operation_of_nn_is_refused() -> None:
    type = f"tensor<{HUGE}xf32>"
    assert "17179869184 bytes" in refused(f'%0 = "nn.constant"() <{{value = dense<0.0> : {type}}}> : () -> {type}')
    assert "17179869184 bytes" in refused(f"module attributes {{qmlir.x = dense<0.0> : {type}}} {{}}")


# -- messages ----------------------------------------------------------------------------------------------------


def test_a_message_is_one_short_printable_line() -> None:
    for name in ("nn." + "x" * 1_000_000, "nn.\\1B[2J\\0Aerror: another", "nn.\\E2\\80\\AEtxt"):
        with pytest.raises(SourceError) as refusal:
            parse(f'"{name}"() : () -> ()')
        for text in (str(refusal.value), str(diagnostic_of(refusal.value, doing="reading"))):
            assert text.isprintable()
            assert len(text) < 6000


def test_errors_of_xdsls_parser_are_about_the_text_and_ours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "xDSL cannot read this: " in refused('"test.op"() ({ ^9: }) : () -> ()')

    def broken(*_: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("qmlir.ir.upstream.parser._as_weights", broken)
    monkeypatch.setattr("qmlir.ir.source.SourceParser._line_of", broken)
    with pytest.raises(ValueError, match="a bug of ours"):
        parse("module {}")
