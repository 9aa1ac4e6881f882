"""Converters as data: what a signature declares is checked before the function runs, for every format alike."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from qmlir.errors import NodeError, UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.converters import AttributeGroup, Converter, Table
from qmlir.frontends.function import Builder, Ints, Value
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.budget import Budget
from tests.frontends.onnx.agreement import model, node


@dataclass(frozen=True)
class Window(AttributeGroup):
    strides: Ints = ()
    pads: Ints = ()


def take(
    node: Node, x: Value, y: Value | None = None, *, axis: int, mode: Literal["", "near", "far"] = "near",
    scale: float | None = None, window: Window,
) -> Any:  # fmt: skip
    return axis, mode, scale, window, y


def a_node() -> Node:
    return Node("Take", "take1", ["out"], Builder.of([], [], Budget()), "net.file")


def call(inputs: list[Any], **attributes: Any) -> Any:
    return Converter.of(take)(a_node(), inputs, attributes)


def test_attributes_get_the_types_that_their_parameters_declare() -> None:
    assert call([1], axis=2) == [2, "near", None, Window(), None]
    assert call([1, 3], axis=True, mode=b"far", scale=1, pads=(1, 2)) == [1, "far", 1.0, Window(pads=(1, 2)), 3]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "needs its attribute axis, an integer, got none"),
        ({"axis": 1.5}, "its attribute axis must be an integer, got 1.5"),
        ({"axis": 1, "mode": "up"}, "its attribute mode must be near or far, got up"),
        ({"axis": 1, "strides": 2}, "its attribute strides must be integers, got 2"),
        ({"axis": 1, "scale": "much"}, "its attribute scale must be a number, got much"),
    ],
)
def test_attributes_of_other_values_are_errors(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(NodeError, match=message):
        call([1], **attributes)


def test_inputs_and_attributes_that_are_not_known() -> None:
    with pytest.raises(UnsupportedError, match='does not know its attribute "colour"'):
        call([1], axis=1, colour=2)
    with pytest.raises(UnsupportedError, match="has 3 inputs and qmlir knows 2"):
        call([1, 2, 3], axis=1)
    with pytest.raises(NodeError, match="needs 1 inputs, got 0"):
        call([], axis=1)


def test_a_mistake_of_a_converter_is_no_fault_of_the_file() -> None:
    def mistaken(node: Node) -> Value:
        return len(3)  # pyright: ignore[reportArgumentType, reportReturnType]

    def misfit(node: Node) -> Value:
        raise ValueError("operands could not be broadcast")

    with pytest.raises(TypeError):
        Converter.of(mistaken)(a_node(), [], {})
    with pytest.raises(NodeError, match="inputs and attributes must fit, got operands could not be broadcast"):
        Converter.of(misfit)(a_node(), [], {})


def test_tables_choose_by_version() -> None:
    table = Table()
    table("Take")(lambda node, x: 1)
    table("Take", since=13, attributes=["axes"], before=2)(lambda node, x, axes=None: 13)
    assert table.versions() == [("", "Take", [1, 2, 13])]
    assert [table.select("", "Take", v).since for v in (1, 5, 13, 20)] == [1, 2, 13, 13]  # pyright: ignore[reportOptionalMemberAccess]


def test_attributes_of_other_domains_are_checked_too() -> None:
    proto = model(node("QuickGelu", "x", domain="com.microsoft", alpha="much"), {"x": [3]})
    with pytest.raises(NodeError, match="its attribute alpha must be a number, got much"):
        load_onnx(proto)
