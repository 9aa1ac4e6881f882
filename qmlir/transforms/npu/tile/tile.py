"""The pass `npu-tile`: turns layers into commands, each layer in tiles that fit the memories of the device.

Enters: the network as `npu.layer` and `npu.host` on tensors, and `npu.device` on the module. Leaves: buffers and
commands in a valid serial order; functions that the host runs; `npu.layers`, the names of the layers; `npu.states`, the
states of the network, which the host keeps between runs, if there are any.
"""

from typing import cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from qmlir.devices import Device
from qmlir.devices.model.module import device_of
from qmlir.devices.model.properties import work_of
from qmlir.devices.model.stored import constant_bytes, stored_bytes
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import ConstantOp, MovementOp
from qmlir.dialects.npu import BufferOp, CallOp, HostOp, LayerOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import HOST_STATES, LAYERS
from qmlir.ir.signature import State, defined_functions, signature_of
from qmlir.ir.states import StateAttr
from qmlir.isa.commands import End
from qmlir.transforms.npu.cascade.residency import address_of, put_rests, rest_of
from qmlir.transforms.npu.tile.aliases import begins_at, joins, operations_of
from qmlir.transforms.npu.tile.emission import Emitter, Spot, port_of
from qmlir.transforms.npu.tile.rows import tile_rows
from qmlir.transforms.npu.tile.vector import copy_tensor, tile_elementwise, tile_movement, tile_pool, tile_reduction


class NPUTilePass(ModulePass):
    """Turns every layer into commands, tile by tile."""

    name = "npu-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the functions that hold layers."""
        device = device_of(op)
        for function in defined_functions(op):
            if any(isinstance(o, LayerOp | HostOp) for o in function.body.block.ops):
                _Tiling(op, function, device).run()


class _Tiling:
    """Rewrites a function of layers to commands."""

    def __init__(self, module: ModuleOp, function: func.FuncOp, device: Device):
        self.module, self.function, self.block = module, function, Block()
        self.emitter = Emitter(device, Builder(InsertPoint.at_end(self.block)))
        kept = signature_of(function)
        self.signature, self.states = kept.flat(), kept.states

    def run(self) -> None:
        """Replaces the function's body by commands."""
        self._inputs()
        for op in self.function.body.block.ops:
            match op:
                case LayerOp() if (begins := begins_at(op)) is not None:
                    self.emitter.tensors[op.outputs[0]] = self.emitter.tensors[op.inputs[0]].later(begins)
                case LayerOp() if joins(op):
                    pass
                case LayerOp():
                    self._begin(op)
                    tile_layer(self.emitter, op)
                case HostOp():
                    # A call has no tiles: its rest is that of the layer before it.
                    self.emitter.begin(op.label.data, self.emitter.rests[-1] if self.emitter.rests else None)
                    self._call(op)
                case func.ReturnOp():
                    self._outputs(op)
                case ConstantOp():
                    pass
                case _:
                    raise UnsupportedError.at(
                        op.name, "", "must be in a layer, or with the host", remedy="run qint-to-npu"
                    )
        self.emitter.issue(self.emitter.engines.array, End, status=0)
        self.emitter.builder.insert(func.ReturnOp())
        LAYERS.put(self.module, self.emitter.layers)
        if self.states:
            HOST_STATES.put(self.module, DictionaryAttr({str(s.places[0]): _kept(s) for s in self.states}))
        put_rests(self.module, self.emitter.rests)
        body = self.function.body
        body.erase_block(body.block, safe_erase=False)
        body.add_block(self.block)
        self.function.function_type = FunctionType.from_lists([], [])
        self.function.arg_attrs = None
        self.function.res_attrs = None

    def _inputs(self) -> None:
        for index, (argument, spec) in enumerate(
            zip(self.function.body.block.args, self.signature.inputs, strict=True)
        ):
            buffer = self.emitter.buffer(self.emitter.engines.external, stored_bytes(argument), "ifm", tensor=spec.name)
            self.emitter.tensors[argument] = Spot(buffer)
            _make_port(buffer, "input", index, spec.name, argument)

    def _outputs(self, op: func.ReturnOp) -> None:
        for index, (value, spec) in enumerate(zip(op.operands, self.signature.outputs, strict=True)):
            spot = self.emitter.tensors.get(value)
            owner = None if spot is None else spot.buffer.owner
            if spot is None or spot.offset or not isinstance(owner, BufferOp) or owner.port is not None:
                # An output that is also an input, is returned twice, or is constant is copied.
                self.emitter.begin(f"copy of {spec.name}")
                spot = copy_tensor(self.emitter, value, spec.name, stored_bytes(value))
            _make_port(spot.buffer, "output", index, spec.name, value)

    def _begin(self, layer: LayerOp) -> None:
        """Marks the beginning of a layer, and records the address at which its result stays."""
        self.emitter.begin(layer.label.data, rest_of(layer))
        if (address := address_of(layer)) is not None:
            if self.emitter.engines.staying is None:
                need = "must leave its result in the external memory: the device has no other for data and results"
                raise UnsupportedError.at("npu.layer", layer.label.data, need)
            self.emitter.stays[layer.outputs[0]] = address

    def _call(self, op: HostOp) -> None:
        """Moves the host's operations to a function, and emits the call."""
        name = f"host_{len([o for o in self.block.ops if isinstance(o, CallOp)])}"
        for value in op.outputs:
            buffer = self.emitter.result_buffer(self.emitter.engines.external, value, op.label.data)
            self.emitter.tensors[value] = Spot(buffer)
        spots = [[self.emitter.tensors[v] for v in values] for values in (op.inputs, op.outputs)]
        if any(spot.offset for spot in spots[0]):
            raise UnsupportedError.at(op.name, op.label.data, "must be given whole tensors")
        inputs, outputs = ([spot.buffer for spot in given] for given in spots)
        constants, work = constant_bytes(op.operations()), work_of(op.operations())
        self.emitter.builder.insert(CallOp(self.emitter.engines.array.id, name, inputs, outputs, constants, work))
        body = op.body.clone()
        yielded = cast(Operation, body.block.last_op)
        body.block.insert_op_before(func.ReturnOp(*yielded.operands), yielded)
        yielded.detach()
        yielded.erase()
        types = FunctionType.from_lists([v.type for v in op.inputs], [v.type for v in op.outputs])
        self.module.body.block.add_op(func.FuncOp(name, types, body, visibility="private"))


def _kept(state: State) -> StateAttr:
    """Returns the mark of a state whose reset value is in stored integers, which the buffers hold."""
    return StateAttr.of(state.places[1], state.reset if state.reset.any() else None)


def tile_layer(emitter: Emitter, layer: LayerOp) -> None:
    """Emits the commands of a layer.

    Raises:
        UnsupportedError: The layer has a form without commands, or does not fit the device's memories.
    """
    operations = operations_of(layer)
    for argument, value in zip(layer.block.args, layer.inputs, strict=True):
        emitter.tensors[argument] = emitter.views(value)[0].spot
    first, *rest = operations
    match first:
        case qint.Conv2DOp() | qint.DepthwiseConv2DOp() | qint.FullyConnectedOp() | qint.MatMulOp():
            from qmlir.transforms.npu.tile.contraction import tile_contraction

            tile_contraction(emitter, layer, first, rest)
        case qint.GlobalSumPoolOp():
            tile_reduction(emitter, layer, first, rest)
        case qint.SoftmaxOp() | qint.LayerNormOp() | qint.RMSNormOp() if not rest:
            tile_rows(emitter, layer, first)
        case qint.MaxPool2DOp() | qint.AveragePool2DOp() if not rest:
            tile_pool(emitter, layer, first)
        case MovementOp() | StorageCastOp() if not rest:
            tile_movement(emitter, layer, first)
        case qint.RequantizeOp() | qint.LookupOp() | qint.AddOp() | qint.MulOp():
            tile_elementwise(emitter, layer, operations)
        case _:
            raise UnsupportedError.at(first.name, layer.label.data, "must be a layer that the device has commands for")


def _make_port(buffer: SSAValue, direction: str, index: int, name: str, value: SSAValue) -> None:
    """Marks a buffer as an input or output of the network."""
    owner = buffer.owner
    assert isinstance(owner, BufferOp)
    owner.port = port_of(direction, index, name, value)
