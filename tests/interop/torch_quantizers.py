"""Networks of PyTorch that quantize: by fake quantization as people spell it, by PyTorch's own modules, by torchao."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

SPELLINGS: dict[str, Callable[[Any, Any, int, int, int], Any]] = {
    "divide": lambda x, s, z, low, high: (_clamp(_round(x / s) + z, low, high) - z) * s,
    "multiply": lambda x, s, z, low, high: (_clamp(_round(x * (1 / s)) + z, low, high) - z) * s,
    "shift first": lambda x, s, z, low, high: (_clamp(_round(x / s + z), low, high) - z) * s,
    "clip first": lambda x, s, z, low, high: _round(_clamp(x / s, low - z, high - z)) * s,
    "clip the data": lambda x, s, z, low, high: _round(_clamp(x, (low - z) * s, (high - z) * s) * (1 / s)) / (1 / s),
    "integers": lambda x, s, z, low, high: (_clamp(_round(x / s) + z, low, high).char().float() - z) * s,
    "floor": lambda x, s, z, low, high: (_clamp(_torch().floor(x / s + 0.5) + z, low, high) - z) * s,
}
"""Name → the fake quantization of x to the integers low to high, with scale s and zero point z."""


def _torch() -> Any:
    return import_module("torch")


def _round(x: Any) -> Any:
    return _torch().round(x)


def _clamp(x: Any, low: Any, high: Any) -> Any:
    return _torch().clamp(x, low, high)


def small() -> Any:
    """Two convolutions, one of them depthwise, with a sum, and a linear layer."""
    torch = _torch()
    nn, functional = torch.nn, torch.nn.functional

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.depthwise = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1, groups=8)
            self.linear = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = functional.relu(self.conv(x))
            x = functional.relu(self.depthwise(x)) + x
            return self.linear(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    torch.manual_seed(0)
    return Small()


def quantizer(spelling: str, scale: float, zero_point: int, low: int, high: int) -> Any:
    """A module of one fake quantization."""
    torch = _torch()

    class Quantizer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor(scale))

        def forward(self, x: Any) -> Any:
            return SPELLINGS[spelling](x, self.scale, zero_point, low, high)

    return Quantizer().eval()


ACTIVATIONS = ((0.03, -4), (0.01, -128), (0.011, -128), (0.012, -128), (0.004, -128), (0.008, 5))
"""Scale and zero point of the input, of both activations, of their sum, of the means and of the result."""


def trained(spelling: str) -> Any:
    """`small` with fake quantization of every tensor; weights have a scale for each channel and 127 steps."""
    torch = _torch()
    nn, functional = torch.nn, torch.nn.functional
    spelled = "clip first" if spelling.startswith("clip") else "divide"

    class Weights(nn.Module):
        def __init__(self, layer: Any):
            super().__init__()
            self.layer = layer
            most = layer.weight.detach().abs().flatten(1).amax(1)
            self.register_buffer("scale", (most / 127).reshape(-1, *[1] * (layer.weight.dim() - 1)))

        def forward(self, x: Any) -> Any:
            w = SPELLINGS[spelled](self.layer.weight, self.scale, 0, -127, 127)
            if isinstance(self.layer, nn.Linear):
                return functional.linear(x, w, self.layer.bias)
            return functional.conv2d(x, w, self.layer.bias, self.layer.stride, self.layer.padding, 1, self.layer.groups)

    class Trained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = small()
            self.layers = nn.ModuleList(map(Weights, (layers.conv, layers.depthwise, layers.linear)))
            points = [(s, 0 if spelling.startswith("clip") else z) for s, z in ACTIVATIONS]
            self.quantizers = nn.ModuleList(quantizer(spelling, s, z, -128, 127) for s, z in points)

        def forward(self, x: Any) -> Any:
            enter, first, second, joined, mean, leave = self.quantizers
            conv, depthwise, linear = self.layers
            x = first(functional.relu(conv(enter(x))))
            x = joined(second(functional.relu(depthwise(x))) + x)
            return leave(linear(mean(functional.adaptive_avg_pool2d(x, 1).flatten(1))))

    return Trained().eval()


def prepared(backend: str, samples: Any) -> Any:
    """`small` with PyTorch's own FakeQuantize modules, calibrated."""
    torch: Any = import_module("torch.ao.quantization")

    class Whole(_torch().nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.network, self.leave = torch.QuantStub(), small(), torch.DeQuantStub()

        def forward(self, x: Any) -> Any:
            return self.leave(self.network(self.enter(x)))

    network = Whole().train()
    network.qconfig = torch.get_default_qat_qconfig(backend, version=0)
    network = torch.prepare_qat(network)
    for x in samples:
        network(x)
    return network.eval().apply(torch.disable_observer)


def converted(samples: Any) -> Any:
    """`small` by torchao's PT2E quantization for x86, as `quantized_decomposed` operators."""
    quantize: Any = import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86: Any = import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")

    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    graph = _torch().export.export(small().eval(), (samples[0],)).module()
    graph = quantize.prepare_pt2e(graph, quantizer)
    for x in samples:
        graph(x)
    return quantize.convert_pt2e(graph)


def weights_only(bits: int, block: int | None = None) -> Any:
    """Two linear layers with torchao's weights of some bits, with a scale for each channel or each block of inputs."""
    torch = _torch()
    ao: Any = import_module("torchao.quantization")

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    if block is None:
        how = ao.Int8WeightOnlyConfig()
    else:
        how = ao.IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), granularity=ao.PerGroup(block))
    ao.quantize_(network, how)
    return import_module("torchao.utils").unwrap_tensor_subclass(network)
