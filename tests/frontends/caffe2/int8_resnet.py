"""Writes ResNet-50 in Caffe2's integer form: the topology of a float net, with seeded random weights.

    python -m tests.frontends.caffe2.int8_resnet resnet50_predict_net.pbtxt FOLDER

writes `predict_net.pb` and `init_net.pb` into the folder. Batch normalization is folded into the convolutions, Relu
into what stands before it, and images are NHWC, as Caffe2's own integer nets have them. The scales keep random
activations of random weights inside their types; nothing is learned, so only the arithmetic can be seen from it.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qmlir.frontends.caffe2.reader import Operator, read_net
from qmlir.frontends.caffe2.schema import NET

DATA = "data_u8"
SCALE = 6 / 255
"""The scale of all activations: 0 to 6 behind a Relu, −3 to 3 elsewhere."""

CLASSES = 1000


class Nets:
    """An integer net and its init net while they are written."""

    def __init__(self, seed: int) -> None:
        self.predict, self.init = NET(name="resnet50_int8"), NET(name="resnet50_int8_init")
        self.random = np.random.default_rng(seed)

    def add(self, net: Any, kind: str, inputs: Sequence[str], output: str, arguments: Mapping[str, Any]) -> None:
        """Adds an operator; an argument is a number, a string, bytes or integers."""
        op = net.op.add(type=kind, input=list(inputs), output=[output])
        for name, value in arguments.items():
            arg = op.arg.add(name=name)
            match value:
                case bool() | int():
                    arg.i = int(value)
                case float():
                    arg.f = value
                case str():
                    arg.s = value.encode()
                case bytes():
                    arg.s = value
                case _:
                    arg.ints.extend(value)

    def weights(self, name: str, shape: Sequence[int], gain: float) -> float:
        """Adds weights of a standard deviation of gain · √(2 / inputs), symmetric in uint8, and returns their scale."""
        fan_in = int(np.prod(shape[1:]))
        real = self.random.normal(0, gain * np.sqrt(2 / fan_in), shape)
        scale = float(np.float32(np.abs(real).max() / 127))
        stored = (np.clip(np.rint(real / scale), -127, 127) + 128).astype(np.uint8)
        given = {"shape": shape, "values": stored.tobytes(), "Y_scale": scale, "Y_zero_point": 128}
        self.add(self.init, "Int8GivenTensorFill", [], name, given)
        return scale

    def bias(self, name: str, size: int, scale: float) -> None:
        """Adds an int32 bias of random numbers around 0."""
        values = np.rint(self.random.normal(0, 0.1, size) / scale).astype(int).tolist()
        given = {"shape": [size], "values": values, "Y_scale": scale, "Y_zero_point": 0}
        self.add(self.init, "Int8GivenIntTensorFill", [], name, given)


def parameters(relu: bool) -> dict[str, float | int]:
    """The type of an activation."""
    return {"Y_scale": SCALE, "Y_zero_point": 0 if relu else 128}


def int8_resnet(topology: Path, seed: int = 0, *, whole_image: bool = False) -> tuple[bytes, bytes]:
    """Returns the net and the init net.

    Args:
        topology: The float net, as text.
        seed: The seed of the weights.
        whole_image: Whether the last pool has the size of its image, so that data of any size fit.
    """
    nets, operators = Nets(seed), read_net(topology).operators
    nets.add(nets.predict, "NCHW2NHWC", ["gpu_0/data"], "data_nhwc", {})
    nets.add(nets.predict, "Int8Quantize", ["data_nhwc"], DATA, parameters(False))
    names = {"gpu_0/data": DATA}
    channels, scales = {DATA: 3}, {DATA: SCALE}
    for index, op in enumerate(operators):
        relu = _relu_follows(operators, index)
        output = f"{op.outputs[0]}_int8_{index}"
        inputs = [names[n] for n in op.inputs if n in names]
        match op.kind:
            case "Conv":
                kernel, width = op.arguments["kernel"], _width(op, channels[inputs[0]])
                w, b = f"{op.inputs[1]}_int8", f"{op.inputs[1]}_bias_int8"
                last = op.outputs[0].endswith("branch2c")
                scale = nets.weights(w, [width, kernel, kernel, channels[inputs[0]]], 0.4 if last else 1.0)
                nets.bias(b, width, scale * scales[inputs[0]])
                given = {**_window(op), "order": "NHWC", **parameters(relu)}
                nets.add(nets.predict, "Int8ConvRelu" if relu else "Int8Conv", [*inputs, w, b], output, given)
                channels[output] = width
            case "SpatialBN" | "Relu":
                output = inputs[0]
            case "Sum":
                nets.add(nets.predict, "Int8SumRelu", inputs, output, parameters(True))
                channels[output] = channels[inputs[0]]
            case "MaxPool" | "AveragePool":
                whole = {"global_pooling": 1} if whole_image and op.kind == "AveragePool" else _window(op)
                given = {**whole, "order": "NHWC", **parameters(True)}
                nets.add(nets.predict, f"Int8{op.kind}", inputs, output, given)
                channels[output] = channels[inputs[0]]
            case "FC":
                scale = nets.weights("pred_w_int8", [CLASSES, channels[inputs[0]]], 1.0)
                nets.bias("pred_b_int8", CLASSES, scale * scales[inputs[0]])
                given = {**parameters(False), "Y_scale": 4 * SCALE}
                nets.add(nets.predict, "Int8FC", [*inputs, "pred_w_int8", "pred_b_int8"], output, given)
            case "Softmax":
                given = {"Y_scale": 1 / 256, "Y_zero_point": 0}
                nets.add(nets.predict, "Int8Softmax", inputs, output, given)
                nets.add(nets.predict, "Int8Dequantize", [output], "softmax", {})
            case other:
                raise ValueError(other)
        names[op.outputs[0]] = output
        scales[output] = SCALE
    nets.predict.external_input.append("gpu_0/data")
    nets.predict.external_output.append("softmax")
    return nets.predict.SerializeToString(), nets.init.SerializeToString()


def _relu_follows(operators: Sequence[Operator], index: int) -> bool:
    """Whether a Relu reads a result next, behind the batch normalization that may stand between."""
    found = [o.kind for o in operators[index + 1 : index + 3]]
    return found[:1] == ["Relu"] or found == ["SpatialBN", "Relu"]


def _window(op: Operator) -> dict[str, int]:
    return {name: op.arguments[name] for name in ("kernel", "stride", "pad") if name in op.arguments}


def _width(op: Operator, inputs: int) -> int:
    """The outputs of a convolution of ResNet-50, by its place: `res3_0_branch2c` has four times those of `2a`."""
    stage = op.outputs[0].removeprefix("gpu_0/")
    if stage == "conv1":
        return 64
    base = 64 << (int(stage[3]) - 2)
    return 4 * base if stage.endswith(("branch2c", "branch1")) else base


def main() -> None:
    """Writes both files."""
    topology, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for name, data in zip(("predict_net.pb", "init_net.pb"), int8_resnet(topology), strict=True):
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
