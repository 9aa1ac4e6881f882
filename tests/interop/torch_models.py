"""Networks of the kinds that people export from PyTorch, small, with random weights and seeded samples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]

SAMPLES = 6


@dataclass(frozen=True)
class Model:
    """A network and its samples.

    network  makes the network
    inputs   makes the samples: name → array, the first dimension numbers the samples
    """

    network: Callable[[], Any]
    inputs: Callable[[np.random.Generator], Arrays]

    def samples(self) -> Arrays:
        return self.inputs(np.random.default_rng(0))

    def made(self) -> Any:
        """The network with seeded weights and statistics, for inference."""
        torch: Any = import_module("torch")

        torch.manual_seed(0)
        network = self.network().eval()
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.normal_(module.running_mean, 0, 0.1)
                torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
        return network


def has_torch() -> bool:
    """Whether PyTorch and what its exporter needs are installed."""
    return find_spec("torch") is not None and find_spec("onnxscript") is not None


def export(name: str, folder: Path) -> None:
    """Writes net.onnx with net.onnx.data, samples to x.npz, and PyTorch's outputs of each to y.npy."""
    torch: Any = import_module("torch")

    network, samples = MODELS[name].made(), MODELS[name].samples()
    np.savez(folder / "x.npz", x=samples["x"])
    np.save(folder / "y.npy", outputs(network, samples))
    first = tuple(torch.from_numpy(a[:1]) for a in samples.values())
    names = {"input_names": list(samples), "verbose": False}
    torch.onnx.export(network, first, str(folder / "net.onnx"), dynamo=True, external_data=True, **names)


def outputs(network: Any, samples: Arrays) -> npt.NDArray[Any]:
    """What PyTorch computes."""
    torch: Any = import_module("torch")

    with torch.no_grad():
        return network(*map(torch.from_numpy, samples.values())).numpy()


def _image(rng: np.random.Generator) -> Arrays:
    return {"x": rng.standard_normal((SAMPLES, 3, 32, 32)).astype(np.float32)}


def _series(rng: np.random.Generator) -> Arrays:
    return {"x": rng.standard_normal((SAMPLES, 5, 12)).astype(np.float32)}


def _text(rng: np.random.Generator) -> Arrays:
    mask = np.arange(12) < rng.integers(4, 13, (SAMPLES, 1))
    return {"tokens": rng.integers(0, 40, (SAMPLES, 12)), "mask": mask.astype(np.int64)}


def residual() -> Any:
    """Residual blocks with depthwise convolutions, batch normalization and squeeze-and-excitation."""
    torch: Any = import_module("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, n: int, m: int, stride: int):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU())
            self.depthwise = nn.Sequential(nn.Conv2d(m, m, 3, 1, 1, groups=m, bias=False), nn.BatchNorm2d(m))
            self.point = nn.Sequential(nn.Conv2d(m, m, 1, bias=False), nn.BatchNorm2d(m))
            self.squeeze, self.excite = nn.Conv2d(m, m // 4, 1), nn.Conv2d(m // 4, m, 1)
            self.skip = nn.Conv2d(n, m, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.point(functional.hardswish(self.depthwise(self.first(x))))
            gate = self.excite(functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1))))
            return functional.relu(y * torch.sigmoid(gate) + self.skip(x))

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(3, 2, 1),
        Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def vision(causal: bool = False) -> Any:
    """A vision transformer: nn.MultiheadAttention, or scaled_dot_product_attention that sees earlier tokens only."""
    torch: Any = import_module("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, width: int, heads: int):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
            approximate = "tanh" if causal else "none"
            gelu = nn.GELU(approximate=approximate)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), gelu, nn.Linear(2 * width, width))
            self.projected, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def attend(self, y: Any) -> Any:
            if not causal:
                return self.attention(y, y, y, need_weights=False)[0]
            batch, length, width = y.shape
            split = self.projected(y).reshape(batch, length, 3, self.heads, width // self.heads)
            q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.joined(seen.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attend(self.before(x))
            return x + self.mlp(self.between(x))

    class Vision(nn.Module):
        def __init__(self, width: int = 32):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.places = nn.Parameter(torch.randn(1, 16, width))
            self.layers = nn.Sequential(Layer(width, 4), Layer(width, 4))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.layers(tokens))).mean(1)

    return Vision()


def encoder() -> Any:
    """An encoder of text with embeddings, a padding mask and a pooler, as BERT has them."""
    torch: Any = import_module("torch")
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self, width: int = 32, length: int = 12):
            super().__init__()
            self.words, self.places, self.norm = (
                nn.Embedding(40, width),
                nn.Embedding(length, width),
                nn.LayerNorm(width),
            )
            layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)

        def forward(self, tokens: Any, mask: Any) -> Any:
            x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1])))
            x = self.layers(x, src_key_padding_mask=mask == 0)
            return self.head(torch.tanh(self.pool(x[:, 0])))

    return Encoder()


def recurrent(kind: str) -> Any:
    """Two bidirectional layers of cells: LSTM, GRU or RNN."""
    nn: Any = import_module("torch.nn")

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = getattr(nn, kind)(12, 8, num_layers=2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(16, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(x)[0][:, -1])

    return Recurrent()


def detector() -> Any:
    """A detector like YOLO: SiLU, split, upsampling, concatenation, boxes as distributions, sigmoid scores."""
    torch: Any = import_module("torch")
    nn = torch.nn

    def conv(n: int, m: int, size: int = 3, stride: int = 1) -> Any:
        return nn.Sequential(nn.Conv2d(n, m, size, stride, size // 2, bias=False), nn.BatchNorm2d(m), nn.SiLU())

    class Split(nn.Module):
        def __init__(self, n: int):
            super().__init__()
            self.enter, self.inner, self.leave = conv(n, n, 1), conv(n // 2, n // 2), conv(n // 2 * 3, n, 1)

        def forward(self, x: Any) -> Any:
            parts = list(self.enter(x).chunk(2, 1))
            return self.leave(torch.cat([*parts, parts[-1] + self.inner(parts[-1])], 1))

    class Detector(nn.Module):
        def __init__(self, classes: int = 3, levels: int = 8):
            super().__init__()
            self.classes, self.levels = classes, levels
            self.fine, self.coarse = nn.Sequential(conv(3, 8, 3, 2), conv(8, 16, 3, 2), Split(16)), conv(16, 16, 3, 2)
            self.pool, self.up, self.joined = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2), Split(32)
            self.heads = nn.ModuleList([nn.Conv2d(n, 4 * levels + classes, 1) for n in (32, 16)])

        def forward(self, x: Any) -> Any:
            fine = self.fine(x)
            coarse = self.coarse(fine)
            coarse = coarse + self.pool(coarse)
            fine = self.joined(torch.cat([self.up(coarse), fine], 1))
            maps = [head(y) for head, y in zip(self.heads, (fine, coarse), strict=True)]
            found = torch.cat([m.flatten(2) for m in maps], 2)
            boxes, scores = found.split((4 * self.levels, self.classes), 1)
            shares = boxes.unflatten(1, (4, self.levels)).softmax(2)
            distances = (shares * torch.arange(self.levels, dtype=torch.float).view(1, 1, -1, 1)).sum(2)
            places = torch.cat([self.places(m) for m in maps], 1)
            near, far = distances.chunk(2, 1)
            low, high = places[:2] - near, places[:2] + far
            corners = torch.cat([(low + high) / 2, high - low], 1) * places[2]
            return torch.cat([corners, scores.sigmoid()], 1)

        @staticmethod
        def places(m: Any) -> Any:
            """The middle of each cell of a map in cells, and the size of a cell: [3, H·W]."""
            height, width = m.shape[2:]
            rows, columns = (torch.arange(n, dtype=torch.float) + 0.5 for n in (height, width))
            y, x = torch.meshgrid(rows, columns, indexing="ij")
            return torch.stack([x, y, torch.full_like(x, 32.0 / width)]).flatten(1)

    return Detector()


MODELS = {
    "residual": Model(residual, _image),
    "vision": Model(vision, _image),
    "causal": Model(lambda: vision(causal=True), _image),
    "encoder": Model(encoder, _text),
    "lstm": Model(lambda: recurrent("LSTM"), _series),
    "gru": Model(lambda: recurrent("GRU"), _series),
    "detector": Model(detector, _image),
}
