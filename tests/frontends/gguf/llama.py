"""Networks of the Llama family in plain numpy, in float64, without a cache: what imported networks have to compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from qmlir.numerics import Array


def logits(metadata: Mapping[str, Any], w: Mapping[str, Array], tokens: Array, most: int | None = None) -> Array:
    """The logits at each place of a sequence, [places, vocabulary]; a token sees `most` places at most."""
    name = metadata["general.architecture"]
    own = {key.removeprefix(f"{name}."): given for key, given in metadata.items()}
    heads, kv = own["attention.head_count"], int(np.ravel(own["attention.head_count_kv"])[0])
    head = own.get("attention.key_length", own["embedding_length"] // heads)
    factor = own.get("rope.scaling.factor", 1.0) if own.get("rope.scaling.type", "linear") == "linear" else 1.0
    place, gemma = np.arange(len(tokens)), name == "gemma3"

    def past(base: float, factor: float, window: int | None) -> tuple[Array, Array]:
        """The turns at the places, as complex numbers, and which places are hidden."""
        angle = place[:, None] / factor / base ** (np.arange(0, head, 2) / head) / w.get("rope_freqs.weight", 1.0)
        far = place[:, None] - place
        return np.exp(1j * angle)[:, None], (far < 0) | (far >= min(window or len(tokens), most or len(tokens)))

    def norm(x: Array, which: str) -> Array:
        eps = own["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[f"{which}.weight"]

    def linear(x: Array, which: str) -> Array:
        return x @ w[f"{which}.weight"].T + w.get(f"{which}.bias", 0.0)

    def turned(x: Array, turn: Array) -> Array:
        if name == "llama":
            z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
            return np.stack([z.real, z.imag], -1).reshape(x.shape)
        z = (x[..., : head // 2] + 1j * x[..., head // 2 :]) * turn
        return np.concatenate([z.real, z.imag], -1)

    def behind(x: Array, which: str) -> Array:
        return norm(x, which) if gemma else x

    def gate(x: Array) -> Array:
        return x / (1 + np.exp(-(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3) if gemma else x)))

    x = w["token_embd.weight"][tokens] * (own["embedding_length"] ** 0.5 if gemma else 1)
    for i in range(own["block_count"]):
        at = f"blk.{i}."
        wide, window = gemma and i % 6 == 5, own.get("attention.sliding_window")
        local = gemma and not wide
        base = own.get("rope.freq_base_swa" if local else "rope.freq_base", 10000.0)
        turn, hidden = past(base, 1.0 if local else factor, None if wide else window)
        y = norm(x, at + "attn_norm")
        q, k, v = (
            linear(y, f"{at}attn_{n}").reshape(len(tokens), h, -1) for n, h in (("q", heads), ("k", kv), ("v", kv))
        )
        if name in ("qwen3", "gemma3"):
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        q, k = turned(q, turn), turned(k, turn)
        k, v = (np.repeat(a, heads // kv, axis=1) for a in (k, v))
        scores = np.einsum("phd,qhd->hpq", q, k) * own.get("attention.scale", head**-0.5)
        scores = np.exp(np.where(hidden, -np.inf, scores - scores.max()))
        mixed = np.einsum("hpq,qhd->phd", scores / scores.sum(-1, keepdims=True), v)
        x = x + behind(linear(mixed.reshape(len(tokens), -1), at + "attn_output"), at + "post_attention_norm")
        y = norm(x, at + "ffn_norm")
        gated = gate(linear(y, at + "ffn_gate")) * linear(y, at + "ffn_up")
        x = x + behind(linear(gated, at + "ffn_down"), at + "post_ffw_norm")
    return norm(x, "output_norm") @ w.get("output.weight", w["token_embd.weight"]).T
