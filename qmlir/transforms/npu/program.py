"""A module as the passes after `npu-tile` find it: one function of buffers and of what is done with them in order."""

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.npu import BufferOp, CallOp, IssueOp
from qmlir.errors import PipelineError

Step = IssueOp | CallOp
"""What takes a place in a queue."""


def function_of(module: ModuleOp, name: str) -> func.FuncOp:
    """The function of a module that holds commands.

    Args:
        module: The module.
        name: Of the pass that asks, for the error.

    Raises:
        PipelineError: There is none, or there are several.
    """
    functions = [f for f in module.body.block.ops if isinstance(f, func.FuncOp) and not f.is_declaration]
    found = [f for f in functions if any(isinstance(op, Step) for op in f.body.block.ops)]
    if len(found) != 1:
        raise PipelineError(name, "needs one function with commands", got=str(len(found)), remedy="run npu-tile first")
    return found[0]


def steps_of(function: func.FuncOp) -> list[Step]:
    """What is done, in order."""
    return [op for op in function.body.block.ops if isinstance(op, Step)]


def buffers_of(function: func.FuncOp) -> list[BufferOp]:
    """All buffers."""
    return [op for op in function.body.block.ops if isinstance(op, BufferOp)]
