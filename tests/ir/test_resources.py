"""Sections of resources, wherever they stand, and what only looks like one."""

import pytest
from xdsl.utils.exceptions import ParseError

from qmlir.ir.context import make_context
from qmlir.ir.resources import contents, file_metadata, hexadecimal_bytes, resources_text
from qmlir.ir.source import SourceError, parse_text


def section(entries: str) -> str:
    return f"{{-# dialect_resources: {{ builtin: {{ {entries} }} }} #-}}"


def blobs(text: str) -> dict[str, bytes]:
    return {key: bytes(data) for key, data in file_metadata(text, "x.mlir").blobs.items()}


def test_no_section() -> None:
    assert file_metadata("module {}", "x.mlir").ends == {}
    assert resources_text({}) == ""


def test_what_only_looks_like_one() -> None:
    text = 'module attributes {a = "{-# \\" {-#"} {} // {-# here\n'
    assert file_metadata(text, "x.mlir").ends == {}


def test_several_sections() -> None:
    first, second = section('v: "0x0100000007"'), section('"a\\22b": "0x02000000", w: "0x000000000809"')
    text = f"{first} module {{}} {second}"
    assert blobs(text) == {"v": b"\x07", 'a"b': b"", "w": b"\x08\x09"}
    start = text.index("{-#", 1)
    assert file_metadata(text, "x.mlir").ends == {0: len(first), start: len(text)}


def test_external_resources_are_for_others() -> None:
    assert blobs('{-# external_resources: { tool: { a: "x", b: true, c: "0x00" }, other: {} } #-}') == {}


def test_an_empty_section() -> None:
    assert blobs("{-#\n\n#-}") == {}
    assert blobs("{-# dialect_resources: { builtin: {} } #-}") == {}


@pytest.mark.parametrize("text", ["{-#", "{-# dialect_resources", section('v: "0x01000000"')[:-3], section("v")])
def test_a_section_that_ends_early(text: str) -> None:
    with pytest.raises(ParseError, match="expected"):
        file_metadata(text, "x.mlir")


@pytest.mark.parametrize("digits", ["0", "0g", "0 00", " 00", "00\n0", "é0"])
def test_no_digits(digits: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal digits"):
        hexadecimal_bytes(digits)


def test_escapes() -> None:
    assert contents(r'"a\\b\"c\n\t\41"') == b'a\\b"c\n\tA'


ELSEWHERE = """func.func @main() {
  func.return
}
{-#
  dialect_resources: { other: { a: "0x08000000AB" } }
#-}"""
WIDE = """func.func @main() -> tensor<2xi128> {
  %0 = nn.constant <tensor<2xi128>, [1, 2]> : tensor<2xi128>
  func.return %0 : tensor<2xi128>
}"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ELSEWHERE, r"net\.mlir:5:24: the resources of dialect other cannot be kept, only those of builtin"),
        (WIDE, r"net\.mlir:2:21: weights cannot hold elements of type i128"),
    ],
)
def test_what_a_module_cannot_keep(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_text(make_context(), text, "net.mlir")
