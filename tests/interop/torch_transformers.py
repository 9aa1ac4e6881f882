"""Encoders of text and of pictures in PyTorch, small, with seeded weights that are distributed as in trained networks.

    bert     embeddings of words, positions and segments; nn.TransformerEncoder with a padding mask, normalizations
             behind the sums; a pooler on the first token
    sdpa     the same, its attention by scaled_dot_product_attention with an additive mask, (1 − mask) · least f32
    vit      patches by a convolution, a class token, positions; nn.TransformerEncoder, normalizations before the layers
    fused    the same, by nn.MultiheadAttention, and GELU by Tanh

The gains of the normalizations differ between channels, and a few are an order of magnitude larger.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]

WIDTH, HEADS, LAYERS, TOKENS, WORDS, CLASSES = 128, 4, 2, 24, 200, 16


def text(random: np.random.Generator) -> Arrays:
    """Ids, segments and mask of a text of some length."""
    places, length = np.arange(TOKENS), int(random.integers(TOKENS // 4, TOKENS + 1))
    inside = places < length
    return {
        "ids": np.where(inside, random.integers(1, WORDS, TOKENS), 0)[None].astype(np.int64),
        "segments": (inside & (places >= int(random.integers(2, length))))[None].astype(np.int64),
        "mask": inside[None].astype(np.int64),
    }


def picture(random: np.random.Generator) -> Arrays:
    """A picture of coarse spots and noise."""
    coarse = random.standard_normal((1, 3, 6, 6)).repeat(4, axis=2).repeat(4, axis=3)
    return {"pixels": (coarse + 0.3 * random.standard_normal((1, 3, 24, 24))).astype(np.float32)}


def _bert(attention: str) -> Any:
    torch: Any = import_module("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        """An encoder layer of scaled_dot_product_attention."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.joined = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.attended, self.done = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def forward(self, x: Any, mask: Any) -> Any:
            def heads(y: Any) -> Any:
                return y.view(*y.shape[:2], HEADS, -1).transpose(1, 2)

            q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
            seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = self.attended(x + self.joined(seen.transpose(1, 2).flatten(2)))
            return self.done(x + self.outer(functional.gelu(self.inner(x))))

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.segments = nn.Embedding(WORDS, WIDTH), nn.Embedding(2, WIDTH)
            self.places, self.norm = nn.Embedding(TOKENS, WIDTH), nn.LayerNorm(WIDTH)
            if attention == "sdpa":
                self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            else:
                layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True)
                self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.pool, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, ids: Any, segments: Any, mask: Any) -> Any:
            places = torch.arange(ids.shape[1], device=ids.device)
            x = self.norm(self.words(ids) + self.segments(segments) + self.places(places))
            if attention == "sdpa":
                added = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
                for layer in self.layers:
                    x = layer(x, added)
            else:
                x = self.layers(x, src_key_padding_mask=mask == 0)
            return self.head(torch.tanh(self.pool(x[:, 0])))

    return Bert()


def _vit(attention: str) -> Any:
    torch: Any = import_module("torch")
    nn = torch.nn

    class Layer(nn.Module):
        """An encoder layer of nn.MultiheadAttention."""

        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.gelu = nn.GELU(approximate="tanh")

        def forward(self, x: Any) -> Any:
            y = self.before(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.outer(self.gelu(self.inner(self.between(x))))

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, WIDTH, 4, 4)
            self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
            self.places = nn.Parameter(torch.randn(1, 37, WIDTH) * 0.2)
            if attention == "fused":
                self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            else:
                layer = nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
                )
                self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, pixels: Any) -> Any:
            patches = self.patches(pixels).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(pixels.shape[0], -1, -1), patches], dim=1) + self.places
            return self.head(self.norm(self.layers(x))[:, 0])

    return Vit()


NETWORKS: Mapping[str, tuple[Callable[[], Any], Callable[[np.random.Generator], Arrays]]] = {
    "bert": (lambda: _bert("encoder"), text),
    "sdpa": (lambda: _bert("sdpa"), text),
    "vit": (lambda: _vit("encoder"), picture),
    "fused": (lambda: _vit("fused"), picture),
}
"""Each network, and what makes a sample."""


def made(name: str) -> Any:
    """A network with seeded weights, for inference."""
    torch: Any = import_module("torch")
    nn = torch.nn

    torch.manual_seed(0)
    random = np.random.default_rng(20)
    network = NETWORKS[name][0]().eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.LayerNorm):
                gains = random.lognormal(0.0, 0.3, WIDTH)
                gains[random.choice(WIDTH, 3, replace=False)] *= 6.0
                module.weight.copy_(torch.from_numpy(gains))
                module.bias.normal_(0, 0.1)
            elif isinstance(module, nn.Linear):
                module.weight.normal_(0, 0.7 / module.in_features**0.5)
                module.bias.normal_(0, 0.05)
            elif isinstance(module, nn.MultiheadAttention):
                module.in_proj_weight.normal_(0, 0.7 / WIDTH**0.5)
                module.in_proj_bias.normal_(0, 0.05)
            elif isinstance(module, nn.Embedding):
                module.weight.normal_(0, 0.5)
    return network


def samples(name: str, number: int, seed: int) -> list[Arrays]:
    """Seeded inputs of a network."""
    random = np.random.default_rng(seed)
    return [NETWORKS[name][1](random) for _ in range(number)]


def outputs(network: Any, given: list[Arrays]) -> npt.NDArray[Any]:
    """What PyTorch computes of each sample, a row each."""
    torch: Any = import_module("torch")

    with torch.no_grad():
        rows = [network(*map(torch.from_numpy, x.values())).numpy().reshape(-1) for x in given]
    return np.stack(rows)
