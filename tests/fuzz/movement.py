"""How data movement, indexing, resizing and sampling are drawn."""

import numpy as np
from onnx import numpy_helper

from tests.fuzz.drawing import Drawing, Refused
from tests.fuzz.operators import back, draws, truth


@draws("Reshape")
def _reshape(d: Drawing, operator: str) -> None:
    x = d.pick()
    sizes = [*d.shape_of(x)]
    for _ in range(d.integer(0, 3)):
        if sizes and d.chance(0.5):
            at = d.integer(0, len(sizes) - 1)
            factor = d.choice([f for f in range(1, sizes[at] + 1) if sizes[at] % f == 0] or [1])
            sizes[at : at + 1] = [factor, sizes[at] // factor]
        elif len(sizes) > 1:
            at = d.integer(0, len(sizes) - 2)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    if sizes and 0 not in sizes and d.chance(0.4):
        sizes[d.integer(0, len(sizes) - 1)] = -1
    d.add(operator, x, d.integers(*sizes))


@draws("Flatten")
def _flatten(d: Drawing, operator: str) -> None:
    x = d.pick()
    d.add(operator, x, axis=d.integer(0, len(d.shape_of(x))))


@draws("Squeeze")
def _squeeze(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    ones = [i for i, s in enumerate(d.shape_of(x)) if s == 1]
    d.add(operator, x, *([d.integers(d.choice(ones))] if ones and d.chance(0.7) else []))


@draws("Unsqueeze")
def _unsqueeze(d: Drawing, operator: str) -> None:
    x = d.pick(0, 4)
    d.add(operator, x, d.integers(d.integer(-1, len(d.shape_of(x)))))


@draws("Transpose")
def _transpose(d: Drawing, operator: str) -> None:
    x = d.pick()
    d.add(operator, x, perm=[int(i) for i in d.rng.permutation(len(d.shape_of(x)))] if d.chance(0.8) else None)


@draws("Concat")
def _concat(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    shape = d.shape_of(x)
    axis = d.integer(0, len(shape) - 1)
    fitting = [
        n for n in d.computed if d.value(n).dtype == d.float and len(d.shape_of(n)) == len(shape)
        and all(a == b or i == axis for i, (a, b) in enumerate(zip(d.shape_of(n), shape, strict=True)))
    ]  # fmt: skip
    parts = [d.choice(fitting) for _ in range(d.integer(1, 2))]
    if d.chance(0.3):
        parts.append(d.constant(d.floats([*shape[:axis], d.integer(1, 3), *shape[axis + 1 :]])))
    d.add(operator, x, *parts, axis=axis - len(shape) if d.chance(0.3) else axis)


@draws("Split")
def _split(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: max(s) > 1)
    axis = int(np.argmax(d.shape_of(x)))
    size = d.shape_of(x)[axis]
    if d.chance(0.5):
        first = d.integer(1, size - 1)
        d.add(operator, x, d.integers(first, size - first), outputs=2, axis=axis)
    else:
        parts = d.integer(2, min(3, size))
        d.add(operator, x, outputs=parts, axis=axis, num_outputs=parts if d.opset >= 18 else None)


@draws("Slice")
def _slice(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    axes = sorted({d.integer(0, len(d.shape_of(x)) - 1) for _ in range(2)})
    starts, ends, steps = list[int](), list[int](), list[int]()
    for axis in axes:
        size = d.shape_of(x)[axis]
        step = d.choice([1, 1, 2, 3, -1, -2])
        low = d.integer(0, max(0, size - 1))
        high = d.integer(low, size) if d.chance(0.9) else size + 5
        if high == low and d.chance(0.95):
            high = low + 1
        start, end = (low, high) if step > 0 else (high - 1, low - 1 if low > 0 else -size - 1)
        starts.append(start - size if d.chance(0.2) and start > 0 else start)
        ends.append(end)
        steps.append(step)
    d.add(operator, x, d.integers(*starts), d.integers(*ends), d.integers(*axes), d.integers(*steps))


@draws("Expand")
def _expand(d: Drawing, operator: str) -> None:
    x = d.pick(0, 4)
    sizes = [d.integer(2, 4) if s == 1 and d.chance(0.7) else d.choice([s, 1]) for s in d.shape_of(x)]
    d.add(operator, x, d.integers(*([d.integer(1, 3)] if d.chance(0.3) else []), *sizes))


@draws("Tile")
def _tile(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    d.add(operator, x, d.integers(*(d.choice([1, 1, 2, 3]) for _ in d.shape_of(x))))


@draws("Pad")
def _pad(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    mode = d.choice([None, None, "constant", "edge", "reflect", *(["wrap"] if d.opset >= 19 else [])])
    most = [s - 1 if mode == "reflect" else 2 for s in d.shape_of(x)]
    pads = [d.integer(-1 if mode is None and d.chance(0.1) else 0, max(0, m)) if d.chance(0.5) else 0
            for _ in range(2) for m in most]  # fmt: skip
    value = [d.constant(np.array(d.choice([0.0, 0.5, -3.0])))] if mode in (None, "constant") and d.chance(0.6) else []
    d.add(operator, x, d.integers(*pads), *value, mode=mode)


@draws("Gather")
def _gather(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    size = d.shape_of(x)[axis]
    places = d.rng.integers(-size, size, d.choice([(), (1,), (3,), (2, 2)]))
    d.add(operator, x, d.constant(np.asarray(places, d.choice([np.int32, np.int64]))), axis=axis)


@draws("GatherElements")
def _gather_elements(d: Drawing, operator: str) -> None:
    x = d.pick(1, 4, fits=lambda s: all(s))
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    shape = [d.integer(1, s) for s in d.shape_of(x)]
    d.add(operator, x, d.constant(d.rng.integers(0, d.shape_of(x)[axis], shape)), axis=axis)


@draws("GatherND")
def _gather_nd(d: Drawing, operator: str) -> None:
    x = d.pick(1, 4, fits=lambda s: all(s))
    depth = d.integer(1, len(d.shape_of(x)))
    places = d.rng.integers(0, d.shape_of(x)[:depth], (d.integer(1, 4), depth))
    d.add(operator, x, d.constant(places.astype(np.int64)))


@draws("Scatter")
def _scatter(d: Drawing, operator: str) -> None:
    d.before(11, 9)
    x = d.pick(1, 4, fits=lambda s: all(s))
    places = d.rng.permutation(d.shape_of(x)[0])[:1].reshape([1] * len(d.shape_of(x)))
    d.add(operator, x, d.constant(places.astype(np.int64)), d.constant(d.floats(places.shape)), axis=0)


@draws("Upsample")
def _upsample(d: Drawing, operator: str) -> None:
    d.before(11, 9)
    x = d.pick(4, 4, fits=lambda s: all(s))
    factors = np.array([1.0, 1.0, *(d.choice([1.0, 2.0, 3.0]) for _ in range(2))], np.float32)
    d.add(operator, x, d.constant(factors, np.float32), mode=d.choice(["nearest", "linear"]))


@draws("ScatterElements")
def _scatter_elements(d: Drawing, operator: str) -> None:
    x = d.pick(1, 4, fits=lambda s: all(s))
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    shape = [1 if i != axis else d.integer(1, s) for i, s in enumerate(d.shape_of(x))]
    places = d.rng.permutation(d.shape_of(x)[axis])[: shape[axis]].reshape(shape)
    reduction = d.choice([None, None, "add", *(["max", "min"] if d.opset >= 18 else [])]) if d.opset >= 16 else None
    d.add(
        "ScatterElements",
        x,
        d.constant(places.astype(np.int64)),
        d.constant(d.floats(shape)),
        axis=axis,
        reduction=reduction,
    )


@draws("ScatterND")
def _scatter_nd(d: Drawing, operator: str) -> None:
    x = d.pick(1, 4, fits=lambda s: all(s))
    shape = d.shape_of(x)
    depth = d.integer(1, len(shape))
    rows = [[d.integer(0, s - 1) for s in shape[:depth]]]
    reduction = d.choice([None, None, "add"]) if d.opset >= 16 else None
    updates = d.constant(d.floats((1, *shape[depth:])))
    d.add(operator, x, d.constant(np.array(rows, np.int64)), updates, reduction=reduction)


@draws("DepthToSpace")
def _depth_to_space(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: s[1] % 4 == 0)
    d.add(operator, x, blocksize=2, mode=d.choice([None, "CRD"]))


@draws("SpaceToDepth")
def _space_to_depth(d: Drawing, operator: str) -> None:
    d.add(operator, d.pick(4, 4, fits=lambda s: s[2] % 2 == 0 and s[3] % 2 == 0), blocksize=2)


@draws("CenterCropPad")
def _crop(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    d.add(operator, x, d.integers(*(d.integer(1, s + 2) for s in d.shape_of(x))))


@draws("Compress")
def _compress(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: all(s))
    axis = d.integer(0, len(d.shape_of(x)) - 1)
    d.add(operator, x, d.constant(d.rng.random(d.shape_of(x)[axis]) < 0.7), axis=axis)


@draws("ReverseSequence")
def _reverse(d: Drawing, operator: str) -> None:
    x = d.pick(2, fits=lambda s: all(s))
    length, batch = d.shape_of(x)[:2]
    lengths = d.constant(d.rng.integers(1, length + 1, batch))
    d.add(operator, x, lengths, time_axis=0, batch_axis=1)


@draws("Trilu")
def _trilu(d: Drawing, operator: str) -> None:
    k = [d.constant(np.array(d.integer(-2, 2), np.int64))] if d.chance(0.5) else []
    d.add(operator, d.pick(2), *k, upper=d.choice([None, 0]))


@draws("Shape")
def _shape(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    sizes = d.add(operator, x, start=d.choice([None, 1]) if d.opset >= 15 else None)[0]
    if d.chance(0.5) and d.shape_of(sizes) == (len(d.shape_of(x)),):
        d.add("Expand", d.constant(d.floats(())), sizes)
    else:
        back(d, sizes)


@draws("Size")
def _size(d: Drawing, operator: str) -> None:
    back(d, d.add(operator, d.pick())[0])


@draws("ConstantOfShape")
def _constant_of_shape(d: Drawing, operator: str) -> None:
    x = d.pick(1)
    value = numpy_helper.from_array(np.array([d.choice([0.0, 1.5])], d.float))
    y = d.add(operator, d.integers(*d.shape_of(x)), value=value)[0]
    d.add("Add", x, y)


@draws("Range")
def _range(d: Drawing, operator: str) -> None:
    x = d.pick(1, fits=lambda s: s[-1] > 0)
    bounds = [d.constant(np.array(v)) for v in (0.0, float(d.shape_of(x)[-1]), 1.0)]
    d.add("Mul", x, d.add(operator, *bounds)[0])


@draws("BlackmanWindow", "HammingWindow", "HannWindow")
def _window(d: Drawing, operator: str) -> None:
    d.since(17)
    x = d.pick(1, fits=lambda s: s[-1] > 3)  # the few values of a smaller window are nothing but noise
    size = d.constant(np.array(d.shape_of(x)[-1], d.choice([np.int32, np.int64])))
    kind = 1 if d.float == np.float32 else 10
    d.add("Add", x, d.add(operator, size, periodic=d.choice([None, 0]), output_datatype=kind)[0])


@draws("NonZero")
def _non_zero(d: Drawing, operator: str) -> None:
    """The places of a constant's elements, by which a tensor is indexed; qmlir refuses those of a computed tensor."""
    x = d.pick(1, 3, fits=lambda s: all(s))
    if d.chance(0.05):
        return back(d, d.add(operator, x)[0])
    chosen = d.rng.random(d.shape_of(x)) < 0.4
    chosen[(0,) * chosen.ndim] = True
    places = d.add(operator, d.constant(chosen if d.chance(0.5) else chosen.astype(np.float32)))[0]
    d.add("GatherND", x, d.add("Transpose", places, perm=[1, 0])[0])


@draws("Unique")
def _unique(d: Drawing, operator: str) -> None:
    """What of a constant is different, of all or of slices."""
    x = d.pick(1, fits=lambda s: s[-1] > 0)
    values = np.rint(d.floats((d.integer(1, 4), d.shape_of(x)[-1])) * 2)
    axis, sort = d.choice([None, 0, 1]), d.choice([None, 0])
    found = d.add(operator, d.constant(values), outputs=4, axis=axis, sorted=sort)
    if axis == 0:
        d.add("Mul", x, d.add("ReduceMax", found[0], keepdims=0, axes=None)[0])
    else:
        d.add("Gather", x, d.add("Min", found[1], d.constant(np.array(d.shape_of(x)[0] - 1)))[0])
    back(d, d.choice(found[1:]))


@draws("NonMaxSuppression")
def _non_max_suppression(d: Drawing, operator: str) -> None:
    """The best of constant boxes, by whose numbers a tensor is indexed."""
    x = d.pick(1, fits=lambda s: 0 < s[0] <= 8)
    count = d.shape_of(x)[0]
    corners = d.rng.uniform(0, 1, (1, count, 2))
    boxes = d.constant(np.concatenate([corners, corners + d.rng.uniform(0.1, 0.6, (1, count, 2))], -1), np.float32)
    scores = d.constant(d.rng.uniform(0.1, 1, (1, d.integer(1, 2), count)), np.float32)
    limits = [
        d.constant(np.array([d.integer(1, 3)], np.int64)),
        d.constant(np.array([d.choice([0.1, 0.5])]), np.float32),
    ]
    least = [d.constant(np.array([0.4]), np.float32)] if d.chance(0.4) else []
    found = d.add(operator, boxes, scores, *limits, *least, center_point_box=d.choice([None, 1]))[0]
    d.add("Gather", x, d.add("Gather", found, d.constant(np.array(2, np.int64)), axis=1)[0], axis=0)


@draws("TensorScatter")
def _tensor_scatter(d: Drawing, operator: str) -> None:
    d.since(24)
    x = d.pick(3, 4, fits=lambda s: all(s))
    shape, axis = [*d.shape_of(x)], d.integer(1, len(d.shape_of(x)) - 1)
    length, shape[axis] = shape[axis], d.integer(1, shape[axis])
    mode = d.choice([None, "circular"])
    last = length - 1 if mode else length - shape[axis]
    places = d.constant(d.rng.integers(0, last + 1, shape[0])) if d.chance(0.7) else ""
    d.add(operator, x, d.constant(d.floats(shape)), places, axis=axis, mode=mode)


@draws("EyeLike")
def _eye(d: Drawing, operator: str) -> None:
    x = d.pick(2, 2)
    d.add("Mul", x, d.add(operator, x, k=d.choice([None, 1, -1]))[0])


@draws("OneHot")
def _one_hot(d: Drawing, operator: str) -> None:
    x = d.pick(1, 3, fits=lambda s: all(s))
    places = d.add("ArgMax", x, axis=-1, keepdims=0)[0]
    depth = d.constant(np.array(d.shape_of(x)[-1], np.int64))
    d.add(operator, places, depth, d.constant(np.array([0.0, 1.0])), axis=d.choice([None, 0]))


@draws("Resize")
def _resize(d: Drawing, operator: str) -> None:
    x = d.pick(3, 4, fits=lambda s: all(s))
    shape = d.shape_of(x)
    mode = d.choice(["nearest", "linear", "linear", "cubic"])
    if mode == "cubic" and len(shape) != 4:
        mode = "linear"
    way = d.choice([None, "asymmetric", "align_corners", "pytorch_half_pixel"])
    nearest = d.choice([None, "floor", "ceil", "round_prefer_ceil"]) if mode == "nearest" else None
    if d.chance(0.5) and way != "align_corners":  # onnxruntime aligns corners of rounded sizes, against ONNX's own case
        scales = [1.0, 1.0, *(d.choice([1.0, 2.0, 3.0, 0.5, 1.5]) for _ in shape[2:])]
        operands = ["", d.constant(np.array(scales, np.float32), np.float32)]
    else:
        operands = ["", "", d.integers(*shape[:2], *(d.integer(1, 2 * s) for s in shape[2:]))]
    d.add("Resize", x, *operands, mode=mode, coordinate_transformation_mode=way, nearest_mode=nearest)


@draws("GridSample")
def _grid_sample(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: all(s))
    grid = d.constant(d.rng.uniform(-1.2, 1.2, (d.shape_of(x)[0], 3, 4, 2)))
    mode = d.choice(["linear", "nearest"]) if d.opset >= 20 else d.choice(["bilinear", "nearest"])
    padding = d.choice([None, "border", "reflection"])
    d.add(operator, x, grid, mode=mode, padding_mode=padding, align_corners=d.choice([None, 1]))


@draws("AffineGrid")
def _affine_grid(d: Drawing, operator: str) -> None:
    if d.opset < 20:
        raise Refused("an older version")
    x = d.input((d.integer(1, 2), 2, 3))
    d.add(operator, x, d.integers(d.shape_of(x)[0], 1, 3, 4), align_corners=d.choice([None, 1]))


@draws("RoiAlign")
def _roi(d: Drawing, operator: str) -> None:
    x = d.pick(4, 4, fits=lambda s: all(s) and min(s[2:]) > 1)
    boxes = d.constant(np.array([[0.0, 0.0, 2.0, 2.0], [0.5, 0.2, 1.9, 2.5]]))
    d.add(operator, x, boxes, d.constant(np.zeros(2, np.int64)), output_height=2, output_width=2, sampling_ratio=2)


@draws("Col2Im")
def _col2im(d: Drawing, operator: str) -> None:
    x = d.pick(3, 3, fits=lambda s: s[1] % 4 == 0 and s[2] == 4)
    d.add(operator, x, d.integers(3, 3), d.integers(2, 2))


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(d: Drawing, operator: str) -> None:
    x = d.pick(2, 4, fits=lambda s: all(s))
    n, classes, *rest = d.shape_of(x)
    targets = d.constant(d.rng.integers(0, classes, (n, *rest)))
    d.add(operator, x, targets, reduction=d.choice([None, "sum", "none"]))


@draws("Identity")
def _identity(d: Drawing, operator: str) -> None:
    d.add(operator, truth(d) if d.chance(0.1) else d.pick())
