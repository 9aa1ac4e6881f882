"""Pieces of a network: together they compute what the network computes, and none parts a state."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import qmlir
from qmlir import stages
from qmlir.backends.reference import evaluate
from qmlir.ir.signature import main_function
from qmlir.ir.states import states_of
from qmlir.transforms.quantize.ranges.observers import observers
from qmlir.transforms.quantize.ranges.pieces import CARRIED, bytes_of, pieces_of
from tests.transforms.quantize.calibrated import parsed
from tests.transforms.quantize.llama import HEAD, PLACES, ROWS, WIDTH, WORDS, llama, sequence

Array = npt.NDArray[Any]

LAYERS = 3


def states(layers: int = LAYERS) -> dict[str, str]:
    return {f"{name}{i}": f"{name}{i}_out" for i in range(layers) for name in "kv"}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """A decoder of three layers, with observers."""
    path = tmp_path_factory.mktemp("pieces") / "net.onnx"
    onnx.save(llama(layers=LAYERS), path)
    return qmlir.Pipeline(*stages.OBSERVE)(qmlir.load(path, state=states()))


@pytest.mark.parametrize("size", [4_000, 20_000, 60_000])
def test_pieces_compute_what_the_network_computes(decoder: ModuleOp, size: int) -> None:
    pieces, function = pieces_of(decoder, size), main_function(decoder)
    assert len(pieces) >= LAYERS
    call, rng = sequence()[1], np.random.default_rng(0)
    caches = [rng.standard_normal(v.type.get_shape()).astype(np.float32) for v in function.body.block.args[2:]]  # type: ignore[attr-defined]
    given = [call["token"], call["place"], *caches]
    values: dict[SSAValue, Array] = dict(zip(function.body.block.args, given, strict=True))
    seen: dict[str, Array] = {}
    for piece in pieces:
        results = evaluate(main_function(piece.module()), [values[v] for v in piece.inputs])
        values |= dict(zip(piece.results, results, strict=True))
        seen |= {name: values[value] for name, value in piece.observed}
    whole = evaluate(main_function(qmlir.Pipeline(*stages.PROFILE)(decoder)), given)
    names = [o.tensor.data for o in observers(decoder)]
    assert len(names) == len(seen)
    for name, array in zip(names, whole[-len(names) :], strict=True):
        np.testing.assert_array_equal(seen[name], array, err_msg=name)


@pytest.mark.parametrize("size", [4_000, 20_000])
def test_a_state_is_read_and_written_in_one_piece(decoder: ModuleOp, size: int) -> None:
    pieces, function = pieces_of(decoder, size), main_function(decoder)
    caches = {function.body.block.args[i] for i in states_of(function)}
    assert sum(len(piece.states) for piece in pieces) == len(caches)
    for piece in pieces:
        assert caches & {*piece.inputs} <= {*piece.states}
        assert all(behind in (*piece.results, *piece.inputs) for behind in piece.states.values())


def test_pieces_end_where_little_is_carried(decoder: ModuleOp) -> None:
    """Between layers: the residual stream, the rows of the tables of angles, and what hides places."""
    pieces, arguments = pieces_of(decoder, 60_000), {*main_function(decoder).body.block.args}
    for piece in pieces[1:]:
        carried = [bytes_of(v) for v in piece.inputs if v not in arguments]
        assert sum(carried) <= 4 * ROWS * (WIDTH + HEAD) + 4 * ROWS * PLACES


def test_small_networks_stay_whole(decoder: ModuleOp) -> None:
    assert pieces_of(decoder) == []
    assert CARRIED > 4 * ROWS * WORDS + PLACES


def chain(body: str, results: str = "%5", types: str = "tensor<2x64xf32>", argument: str = "") -> ModuleOp:
    """A network of five steps, of about 1 KB each."""
    steps = "\n".join(
        f"%{i + 1} = nn.relu %{i} : tensor<2x64xf32> -> tensor<2x64xf32>\n"
        f'calib.observe %{i + 1} {{name = "t{i + 1}"}} : tensor<2x64xf32>'
        for i in range(1, 5)
    )
    head, end = (
        f"func.func @main(%0: tensor<2x64xf32>{argument}) -> ({types}) {{",
        f"func.return {results} : {types}\n}}",
    )
    return parsed("\n".join([head, body, steps, end]))


FIRST = "%1 = nn.relu %0 : tensor<2x64xf32> -> tensor<2x64xf32>"
STATE = ", %s: tensor<2x64xf32> {qmlir.state = #qmlir.state<1>}"
TWO = "tensor<2x64xf32>, tensor<2x64xf32>"
ADDED = "%1 = nn.add %0, %s : tensor<2x64xf32>, tensor<2x64xf32> -> tensor<2x64xf32>"


def observed(pieces: Sequence[Any]) -> list[list[str]]:
    return [[name for name, _ in piece.observed] for piece in pieces]


def test_a_state_across_the_network_keeps_it_whole() -> None:
    """What the last step computes is what the first reads in the next call."""
    assert len(pieces_of(chain(FIRST), 1000)) > 1
    assert pieces_of(chain(ADDED, "%5, %5", TWO, STATE), 1000) == []
    assert observed(pieces_of(chain(ADDED, "%5, %2", TWO, STATE), 1000))[0][:1] == ["t2"]


def test_a_state_that_takes_an_input() -> None:
    """The state is what the input was in the call before."""
    pieces = pieces_of(chain(ADDED, "%5, %0", TWO, STATE), 1000)
    assert len(pieces) > 1
    ((state, behind),) = pieces[0].states.items()
    assert {state, behind} == {*pieces[0].inputs}


def test_two_tensors_of_one_name_keep_a_network_whole() -> None:
    """Their values are counted together."""
    twice = f'{FIRST}\ncalib.observe %1 {{name = "t2"}} : tensor<2x64xf32>'
    assert pieces_of(chain(twice), 1000) == []
