"""The dialect of custom accelerators: first layers on tensors, then commands on buffers."""

from xdsl.ir import Dialect

from qmlir.dialects.npu.commands import BufferOp, BufferType, CallOp, CommandAttr, IssueOp, PortAttr
from qmlir.dialects.npu.layers import HostOp, LayerOp, YieldOp

NPU = Dialect("npu", [LayerOp, HostOp, YieldOp, BufferOp, IssueOp, CallOp], [BufferType, CommandAttr, PortAttr])
"""`npu.layer` and `npu.host` say what runs where; `npu.buffer` and `npu.issue` say how."""
