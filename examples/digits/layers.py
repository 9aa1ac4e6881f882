"""The few layers the digits network needs, in numpy, each with its gradient; images are [N, H, W, C]."""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class Layer(ABC):
    """A differentiable function; `parameters` and `gradients` have the same keys."""

    def __init__(self) -> None:
        self.parameters: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}

    @abstractmethod
    def forward(self, x: Array, *, training: bool) -> Array:
        """The layer's result; remembers what the gradient needs."""

    @abstractmethod
    def backward(self, gradient: Array) -> Array:
        """From the loss's gradient by the result to that by the input; sets `gradients`."""


class Dense(Layer):
    """y = x · wᵀ + b, w [outputs, inputs]."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int):
        super().__init__()
        self.parameters["weight"] = _he(rng, (outputs, inputs), inputs)
        self.parameters["bias"] = np.zeros(outputs, np.float32)

    def forward(self, x: Array, *, training: bool) -> Array:
        self.x = x
        return x @ self.parameters["weight"].T + self.parameters["bias"]

    def backward(self, gradient: Array) -> Array:
        self.gradients = {"weight": gradient.T @ self.x, "bias": gradient.sum(axis=0)}
        return gradient @ self.parameters["weight"]


class Conv3x3(Layer):
    """A convolution with a 3x3 window and padding 1, w [outputs, 3, 3, inputs]; without bias if a norm follows."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, *, bias: bool = True):
        super().__init__()
        self.parameters["weight"] = _he(rng, (outputs, 3, 3, inputs), 9 * inputs)
        if bias:
            self.parameters["bias"] = np.zeros(outputs, np.float32)

    def forward(self, x: Array, *, training: bool) -> Array:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))  # [N, H, W, C, 3, 3]
        self.shape = x.shape
        self.columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, 9 * x.shape[3])
        weight = self.parameters["weight"]
        y = self.columns @ weight.reshape(len(weight), -1).T
        return (y + self.parameters.get("bias", np.float32(0))).reshape(*x.shape[:3], -1)

    def backward(self, gradient: Array) -> Array:
        n, h, w, c = self.shape
        weight = self.parameters["weight"]
        flat = gradient.reshape(-1, len(weight))
        self.gradients = {"weight": (flat.T @ self.columns).reshape(weight.shape)}
        if "bias" in self.parameters:
            self.gradients["bias"] = flat.sum(axis=0)
        columns = (flat @ weight.reshape(len(weight), -1)).reshape(n, h, w, 3, 3, c)
        padded = np.zeros((n, h + 2, w + 2, c), np.float32)
        for i, j in np.ndindex(3, 3):
            padded[:, i : i + h, j : j + w] += columns[:, :, :, i, j]
        return padded[:, 1:-1, 1:-1]


class BatchNorm(Layer):
    """scale · (x − mean) / √(variance + ε) + bias for each channel; running statistics when not training."""

    EPSILON = 1e-5
    MOMENTUM = 0.9

    def __init__(self, channels: int):
        super().__init__()
        self.parameters = {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, *, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean(axis=(0, 1, 2), dtype=x.dtype), x.var(axis=(0, 1, 2), dtype=x.dtype)
            self.mean = self.MOMENTUM * self.mean + (1 - self.MOMENTUM) * mean
            self.variance = self.MOMENTUM * self.variance + (1 - self.MOMENTUM) * variance
        self.deviation: Array = np.sqrt(variance + self.EPSILON)
        self.normal: Array = (x - mean) / self.deviation
        return self.parameters["scale"] * self.normal + self.parameters["bias"]

    def backward(self, gradient: Array) -> Array:
        axes = (0, 1, 2)
        self.gradients = {"scale": (gradient * self.normal).sum(axes), "bias": gradient.sum(axes)}
        inner = gradient - gradient.mean(axes) - self.normal * (gradient * self.normal).mean(axes)
        return (self.parameters["scale"] / self.deviation * inner).astype(np.float32, copy=False)


class Relu(Layer):
    """max(x, 0)."""

    def forward(self, x: Array, *, training: bool) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient: Array) -> Array:
        return gradient * self.positive


class MaxPool2x2(Layer):
    """The maximum of each 2x2 square."""

    def forward(self, x: Array, *, training: bool) -> Array:
        n, h, w, c = x.shape
        self.squares = x.reshape(n, h // 2, 2, w // 2, 2, c)
        self.y = self.squares.max(axis=(2, 4), keepdims=True)
        return self.y[:, :, 0, :, 0]

    def backward(self, gradient: Array) -> Array:
        n, h, _, w, _, c = self.squares.shape
        largest = self.squares == self.y
        shared = gradient[:, :, None, :, None] * largest / largest.sum(axis=(2, 4), keepdims=True)
        return shared.reshape(n, 2 * h, 2 * w, c).astype(np.float32)


class Flatten(Layer):
    """[N, H, W, C] → [N, C·H·W], in the channels-first order of the exported model."""

    def forward(self, x: Array, *, training: bool) -> Array:
        self.shape = x.shape
        return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

    def backward(self, gradient: Array) -> Array:
        n, h, w, c = self.shape
        return gradient.reshape(n, c, h, w).transpose(0, 2, 3, 1)


class Adam:
    """Adam on the parameters of some layers (Kingma and Ba, 2015)."""

    def __init__(self, layers: list[Layer], rate: float):
        self.layers, self.rate, self.step = layers, rate, 0
        self.moments = {(i, key): (np.zeros_like(p), np.zeros_like(p)) for i, key, p in self._parameters()}

    def _parameters(self) -> list[tuple[int, str, Array]]:
        return [(i, key, p) for i, layer in enumerate(self.layers) for key, p in layer.parameters.items()]

    def update(self) -> None:
        """One step along the layers' gradients."""
        self.step += 1
        for i, key, parameter in self._parameters():
            first, second = self.moments[i, key]
            gradient = self.layers[i].gradients[key]
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            ratio = (first / (1 - 0.9**self.step)) / (np.sqrt(second / (1 - 0.999**self.step)) + 1e-8)
            parameter -= np.float32(self.rate) * ratio.astype(np.float32)


def _he(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> Array:
    return (rng.standard_normal(shape) * np.sqrt(2 / inputs)).astype(np.float32)
