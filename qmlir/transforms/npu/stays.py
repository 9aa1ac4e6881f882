"""The attributes that say which tensors stay inside the device (SRAM-resident tensors).

They lie on layers, and on the module once the layers are commands.

    %1 = npu.layer "expand" (…) -> (…) attributes {stays = 65536 : i64, rest = {…}} { … }

The result of a layer with `stays` lies at that address of the memory in which tensors can stay (engines.py), instead of
in the external memory. `rest` is the part of this memory that tensors leave to the layer's tiles while it runs.
"""

from collections.abc import Sequence
from typing import cast, get_args

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

from qmlir.devices.values import Role
from qmlir.dialects.npu import LayerOp
from qmlir.errors import LoweringError
from qmlir.transforms.npu.regions import Region, Rest

STAYS = "stays"
"""The layer attribute with the address at which the layer's result stays."""

REST = "rest"
"""The layer attribute with the part of the memory that is left to the layer's tiles."""

RESTS = "npu.rests"
"""The module attribute with the rest of each layer in `npu.layers`; a unit attribute if its tiles have all memory."""


def address_of(layer: LayerOp) -> int | None:
    """The address at which the result of a layer stays; None if the result goes to the external memory."""
    attribute = layer.attributes.get(STAYS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def rest_of(layer: LayerOp) -> Rest | None:
    """The memory that is left to the tiles of a layer; None if no tensor stays meanwhile."""
    return _rest(layer.attributes.get(REST))


def put(layer: LayerOp, address: int | None, rest: Rest) -> None:
    """Sets the attributes of a layer: where its result stays, and the memory that is left to its tiles."""
    if address is not None:
        layer.attributes[STAYS] = IntegerAttr(address, i64)
    layer.attributes[REST] = _attribute(rest)


def rests_of(module: ModuleOp) -> Sequence[Rest | None]:
    """For each layer of a module of commands, the memory left to its tiles; empty if no tensor stays in any layer."""
    attribute = module.attributes.get(RESTS)
    return [_rest(each) for each in cast(ArrayAttr[Attribute], attribute)] if isinstance(attribute, ArrayAttr) else []


def put_rests(module: ModuleOp, rests: Sequence[Rest | None]) -> None:
    """Sets the module attribute with the memory that is left to the tiles of each layer."""
    if any(rests):
        module.attributes[RESTS] = ArrayAttr(UnitAttr() if rest is None else _attribute(rest) for rest in rests)


def _attribute(rest: Rest) -> DictionaryAttr:
    return DictionaryAttr({
        "memory": StringAttr(rest.memory), "base": IntegerAttr(rest.region.base, i64),
        "bytes": IntegerAttr(rest.region.size, i64), "roles": ArrayAttr(StringAttr(role) for role in rest.roles),
    })  # fmt: skip


def _rest(attribute: object) -> Rest | None:
    if not isinstance(attribute, DictionaryAttr):
        return None
    match attribute.data:
        case {
            "memory": StringAttr(data=memory), "base": IntegerAttr(value=base), "bytes": IntegerAttr(value=size),
            "roles": ArrayAttr(data=roles),
        }:  # fmt: skip
            known: dict[str, Role] = {role: role for role in get_args(Role)}
            named: tuple[Role, ...] = tuple(
                known[role.data] for role in roles if isinstance(role, StringAttr) and role.data in known
            )
            return Rest(memory, Region(base.data, size.data), named)
        case _:
            need = f"{REST} must say memory, base, bytes and roles"
            raise LoweringError("npu.layer", "", need, got=str(attribute), remedy="run npu-cascade")
