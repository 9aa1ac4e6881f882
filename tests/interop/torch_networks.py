"""Small networks of PyTorch with random weights, and their export as PyTorch does it by default."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS: dict[str, tuple[int, ...]] = {"cnn": (3, 16, 16), "vit": (3, 16, 16), "lstm": (3, 12)}
"""Each network, and the shape of a sample."""

SAMPLES = 12


def has_torch() -> bool:
    """Whether PyTorch and what its exporter needs are installed."""
    return find_spec("torch") is not None and find_spec("onnxscript") is not None


def export(name: str, folder: Path) -> None:
    """Writes net.onnx with net.onnx.data, samples to x.npz, and PyTorch's outputs of each to y.npy."""
    torch: Any = import_module("torch")

    torch.manual_seed(0)
    network = {"cnn": _cnn, "vit": _vit, "lstm": _lstm}[name]().eval()
    shape = NETWORKS[name]
    samples = np.random.default_rng(0).standard_normal((SAMPLES, *shape)).astype(np.float32)
    np.savez(folder / "x.npz", x=samples)
    with torch.no_grad():
        np.save(folder / "y.npy", network(torch.from_numpy(samples)).numpy())
    torch.onnx.export(
        network, (torch.from_numpy(samples[:1]),), str(folder / "net.onnx"), dynamo=True, external_data=True,
        input_names=["x"], verbose=False,
    )  # fmt: skip


def _cnn() -> Any:
    nn: Any = import_module("torch.nn")

    norms = [nn.BatchNorm2d(8), nn.BatchNorm2d(8)]
    for norm in norms:
        nn.init.normal_(norm.running_mean, 0, 0.1)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), norms[0], nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), norms[1], nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def _vit() -> Any:
    torch: Any = import_module("torch")
    nn = torch.nn

    class Transformer(nn.Module):
        def __init__(self, width: int = 32):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            self.token = nn.Parameter(torch.randn(1, 1, width))
            self.places = nn.Parameter(torch.randn(1, 17, width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            patches = self.patches(x).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1) + self.places
            return self.head(self.norm(self.layers(tokens))[:, 0])

    return Transformer()


def _lstm() -> Any:
    nn: Any = import_module("torch.nn")

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.LSTM(12, 8, batch_first=True, bidirectional=True), nn.Linear(16, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(x)[0][:, -1])

    return Recurrent()
