# pyright: reportUnusedImport=false
"""The neural-network dialect: the operations of a network, on float or quantized tensors.

Spatial operations are channels-last; `base.py` describes what all operations share.
"""

from xdsl.ir import Dialect

from qmlir.dialects.nn import (
    attention,
    bitwise,
    blocked,
    casts,
    contraction,
    detection,
    elementwise,
    functions,
    indexing,
    movement,
    normalization,
    reduction,
    resize,
    rotation,
    rows,
)
from qmlir.dialects.nn.attention import AttendOp
from qmlir.dialects.nn.bitwise import AndOp, NotOp, OrOp, ShiftLeftOp, ShiftRightOp, XorOp
from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.casts import BitcastOp, CastOp
from qmlir.dialects.nn.contraction import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.detection import NonMaxSuppressionOp, NonZeroOp
from qmlir.dialects.nn.elementwise import (
    AddOp,
    DivOp,
    EqualOp,
    IsInfOp,
    IsNaNOp,
    LessEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    PowOp,
    PReluOp,
    SquaredDifferenceOp,
    SubOp,
    WhereOp,
)
from qmlir.dialects.nn.functions import (
    AbsOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    BinarizeOp,
    CeilOp,
    CeluOp,
    ClampOp,
    CoshOp,
    CosOp,
    EluOp,
    ErfOp,
    ExpOp,
    FloorOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    LogOp,
    MishOp,
    NegOp,
    ReciprocalOp,
    ReluOp,
    RequantizeOp,
    RoundOp,
    RsqrtOp,
    SeluOp,
    ShrinkOp,
    SigmoidOp,
    SignOp,
    SinhOp,
    SinOp,
    SoftplusOp,
    SoftsignOp,
    SqrtOp,
    SwishOp,
    TanhOp,
    TanOp,
    ThresholdedReluOp,
)
from qmlir.dialects.nn.indexing import GatherNDOp, GatherOp, ScatterNDOp, ScatterReduceNDOp, TopKOp
from qmlir.dialects.nn.movement import (
    BroadcastOp,
    ConcatOp,
    ConstantOp,
    DilateOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from qmlir.dialects.nn.normalization import (
    LayerNormOp,
    LocalResponseNormalizationOp,
    LogSoftmaxOp,
    LpNormalizationOp,
    RMSNormOp,
    RootQuotientOp,
    SoftmaxOp,
)
from qmlir.dialects.nn.reduction import (
    ArgMaxOp,
    ArgMinOp,
    AveragePool2DOp,
    CumulativeProductOp,
    CumulativeSumOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MaxPoolIndices2DOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from qmlir.dialects.nn.resize import ResizeOp, SampleOp
from qmlir.dialects.nn.rotation import HadamardOp
from qmlir.dialects.nn.rows import DivideRowsOp, MultiplyRowsOp, RowMagnitudesOp
from qmlir.ir.interfaces import TensorOp

_FAMILIES = (
    *(
        contraction,
        blocked,
        casts,
        elementwise,
        bitwise,
        functions,
        reduction,
        normalization,
        rows,
        attention,
        movement,
        indexing,
        resize,
        rotation,
    ),
    detection,
)

NN = Dialect(
    "nn",
    [
        found
        for family in _FAMILIES
        for found in vars(family).values()
        if isinstance(found, type) and issubclass(found, TensorOp) and "name" in vars(found)
        if found.__module__ == family.__name__
    ],
)
