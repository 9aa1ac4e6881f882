"""Encoders with outlier channels, and heads of attention as PyTorch's users write them, with seeded weights."""

import math
from importlib import import_module
from typing import Any

LENGTH, WIDTH, HEADS = 24, 32, 4


def multi_head(causal: bool = False, weights: bool = False) -> Any:
    """torch's own module."""
    torch: Any = import_module("torch")

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            mask = torch.triu(torch.full((LENGTH, LENGTH), -math.inf), 1)
            self.register_buffer("mask", mask if causal else None)

        def forward(self, x: Any) -> Any:
            return self.inner(x, x, x, need_weights=weights, attn_mask=self.mask)[0]

    return Attention()


def scaled_dot_product(causal: bool = False, mask: str = "", groups: int = 1) -> Any:
    """torch's function between layers; several heads may share a key and a value."""
    torch: Any = import_module("torch")

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.o = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
            self.k, self.v = (torch.nn.Linear(WIDTH, WIDTH // groups) for _ in range(2))
            keep = torch.rand(LENGTH, LENGTH) > 0.3
            self.register_buffer("mask", {"bool": keep, "float": torch.randn(LENGTH, LENGTH)}.get(mask))

        def forward(self, x: Any) -> Any:
            q, k, v = (
                f(x).view(x.shape[0], LENGTH, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v)
            )
            k, v = (t.repeat_interleave(groups, dim=1) for t in (k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=causal)
            return self.o(y.transpose(1, 2).reshape(x.shape))

    return Attention()


def spelled(how: str) -> Any:
    """Heads behind one layer for query, key and value, as projects write them."""
    torch: Any = import_module("torch")

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.o = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.register_buffer("keep", torch.tril(torch.ones(LENGTH, LENGTH)) > 0)

        def forward(self, x: Any) -> Any:
            depth = WIDTH // HEADS
            q, k, v = (t.view(x.shape[0], LENGTH, HEADS, depth) for t in self.qkv(x).chunk(3, -1))
            if how == "einsum":
                p = (torch.einsum("bshd,bthd->bhst", q, k) * depth**-0.5).softmax(-1)
                return self.o(torch.einsum("bhst,bthd->bshd", p, v).reshape(x.shape))
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            if how == "late":
                s = q @ k.transpose(2, 3) * depth**-0.5
                e = torch.exp(s - s.amax(-1, keepdim=True))
                y = e @ v / e.sum(-1, keepdim=True)
            else:
                s = (q * depth**-0.25) @ (k * depth**-0.25).transpose(2, 3)
                y = s.masked_fill(~self.keep, -1e9).softmax(-1) @ v
            return self.o(y.transpose(1, 2).reshape(x.shape))

    return Attention()


def encoder(layers: int, width: int, heads: int, makers: str, outliers: int = 4) -> Any:
    """An encoder with a few channels that are 20 to 60 times as large as the others, as BERT's are.

    Args:
        layers: The number of layers.
        width: The number of channels.
        heads: The number of heads.
        makers: What makes the outliers: "layers", of which two write them into a stream with normalizations in its
            branches; or "gains" or "shifts" of normalizations of the stream. Gains compound: two layers on, the
            outliers are a thousand times as large as the others, and whichever leads in a row grows.
        outliers: The number of the large channels.
    """
    torch: Any = import_module("torch")
    pre_norm = makers == "layers"
    nn: Any = torch.nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

        def attention(self, x: Any) -> Any:
            q, k, v = (f(x).view(*x.shape[:2], heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            p = (q @ k.transpose(2, 3) / math.sqrt(width // heads)).softmax(-1)
            return self.o((p @ v).transpose(1, 2).reshape(x.shape))

        def inner(self, x: Any) -> Any:
            return self.down(nn.functional.gelu(self.up(x)))

        def forward(self, x: Any) -> Any:
            if pre_norm:
                x = x + self.attention(self.first(x))
                return x + self.inner(self.second(x))
            x = self.first(x + self.attention(x))
            return self.second(x + self.inner(x))

    torch.manual_seed(0)
    network = nn.Sequential(nn.LayerNorm(width), *(Layer() for _ in range(layers)))
    with torch.no_grad():
        _plant(network, outliers, makers)
    return network


def _plant(network: Any, outliers: int, makers: str) -> None:
    """Gives an encoder random weights, and its outlier channels."""
    torch: Any = import_module("torch")

    first, *layers = network
    chosen, size = torch.randperm(first.weight.numel())[:outliers], 20 + 40 * torch.rand(outliers)
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.normal_(0, 1 / math.sqrt(module.in_features))
            module.bias.normal_(0, 0.02)
    if makers == "layers":
        for layer in layers[:2]:
            layer.down.weight[chosen] *= size[:, None] / 2
            layer.down.bias[chosen] += size
        return
    if makers == "shifts":
        for norm in (norm for layer in layers for norm in (layer.first, layer.second)):
            norm.weight.normal_(1, 0.2)
            norm.bias.normal_(0, 0.2)
            norm.bias[chosen] += size * torch.sign(torch.randn(outliers))
        return
    for layer, reader in zip(layers, [*layers[1:], None], strict=True):
        layer.second.weight[chosen] *= size
        for f in () if reader is None else (reader.q, reader.k, reader.v):
            f.weight[:, chosen] /= size
