"""Einsum against onnxruntime."""

import numpy as np
import pytest

from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import agree, floats, kinds, model, node

EQUATIONS: list[tuple[str, list[list[int]]]] = [
    ("ij->ji", [[2, 3]]),
    ("ij->i", [[2, 3]]),
    ("ij->", [[2, 3]]),
    ("ij", [[2, 3]]),
    ("ba", [[2, 3]]),
    ("ii->i", [[3, 3]]),
    ("iji->j", [[3, 2, 3]]),
    ("...ii->...i", [[2, 4, 3, 3]]),
    ("ij,jk->ik", [[2, 3], [3, 4]]),
    ("ij,jk->ki", [[2, 3], [3, 4]]),
    ("ij,jk", [[2, 3], [3, 4]]),
    ("bij,bjk->bik", [[5, 2, 3], [5, 3, 4]]),
    ("...ij,...jk->...ik", [[2, 4, 2, 3], [2, 4, 3, 5]]),
    ("i,i", [[5], [5]]),
    ("i,j->ij", [[5], [4]]),
    ("ij,ij->ij", [[2, 3], [2, 3]]),
    ("bhid,bhjd->bhij", [[2, 3, 4, 5], [2, 3, 6, 5]]),
    ("bhij,bhjd->bihd", [[2, 3, 4, 6], [2, 3, 6, 5]]),
    ("ijk,kl->lij", [[2, 3, 4], [4, 5]]),
    ("ijk,l->i", [[2, 3, 4], [5]]),
    ("ij,jk,kl->il", [[2, 3], [3, 4], [4, 5]]),
    ("ij,ik,il->i", [[2, 3], [2, 4], [2, 5]]),
    (" b n t , n t m -> b m ", [[2, 3, 4], [3, 4, 5]]),
    ("aB,Bc->ac", [[2, 3], [3, 4]]),
    ("ij,->ij", [[2, 3], []]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: list[list[int]]) -> None:
    names = [f"x{i}" for i, _ in enumerate(shapes)]
    proto = model(node("Einsum", " ".join(names), equation=equation), dict(zip(names, shapes, strict=True)))
    agree(proto)


def test_a_constant_matrix_is_a_layer() -> None:
    module = agree(model(node("Einsum", "x w", equation="abc,cd->abd"), {"x": [2, 3, 4]}, {"w": floats(4, 5)}))
    assert [k for k in kinds(module) if k != "nn.reshape"] == ["nn.fully_connected"]
    module = agree(model(node("Einsum", "x w", equation="abc,acd->abd"), {"x": [2, 3, 4]}, {"w": floats(2, 4, 5)}))
    assert [k for k in kinds(module) if k != "nn.reshape"] == ["nn.matmul"]


def test_integers() -> None:
    proto = model(
        node("Einsum", "x y", "z", equation="ij,jk->ik"), {"x": [2, 3], "y": [3, 4]}, outputs=["z"], element=6
    )
    assert kinds(load_onnx(proto)) == ["nn.matmul"]


@pytest.mark.parametrize(("equation", "need"), [
    ("ij->ik", "labels of its operands"), ("ij,jk->ik", "a term for each of its 1 operands"),
    ("ijk->i", 'the term "ijk" must name 2 dimensions'), ("ii->i", "must be equal"), ("ij->ii", "each label once"),
    ("i1->i", "a term for each"),
])  # fmt: skip
def test_equations_that_do_not_fit(equation: str, need: str) -> None:
    with pytest.raises(NodeError, match=need):
        load_onnx(model(node("Einsum", "x", equation=equation), {"x": [2, 3]}))


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(NodeError, match="must be equal"):
        load_onnx(model(node("Einsum", "x w", equation="ij,jk->ik"), {"x": [2, 3]}, {"w": np.ones((4, 2), np.float32)}))
