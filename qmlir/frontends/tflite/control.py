"""Converters of IF, WHILE and CALL, whose conditions must be known at import: only the subgraphs that run are imported.

An IF becomes the branch that is taken, a WHILE becomes its body as often as it runs.
"""

from qmlir.frontends.tflite.converters import converts
from qmlir.frontends.tflite.node import TFLiteNode
from qmlir.frontends.values import Value

Values = tuple[Value, ...]


def _holds(node: TFLiteNode, condition: Value) -> bool:
    array = node.array(condition, "condition")
    if array.size != 1:
        raise node.error("its condition must be one value", f"{array.size} values")
    return bool(array.reshape(()))


@converts("IF", options="IfOptions")
def if_(
    node: TFLiteNode, condition: Value, *inputs: Value, then_subgraph_index: int, else_subgraph_index: int
) -> Values:
    """The outputs of the subgraph that the condition selects."""
    taken = then_subgraph_index if _holds(node, condition) else else_subgraph_index
    return tuple(node.called_subgraph(taken, inputs))


@converts("WHILE", options="WhileOptions")
def while_(node: TFLiteNode, *inputs: Value, cond_subgraph_index: int, body_subgraph_index: int) -> Values:
    """Unrolled loop: the body's outputs become its next inputs for as long as the condition holds."""
    values, run = list(inputs), 0
    while _holds(node, _one(node, node.called_subgraph(cond_subgraph_index, values, f"{run}.condition."))):
        values = node.called_subgraph(body_subgraph_index, values, f"{run}.")
        run += 1
        if len(values) != len(inputs):
            raise node.error(f"its body must have {len(inputs)} outputs", str(len(values)))
    return tuple(values)


def _one(node: TFLiteNode, values: list[Value]) -> Value:
    if len(values) != 1:
        raise node.error("the subgraph of its condition must have one output", str(len(values)))
    return values[0]


@converts("CALL", options="CallOptions")
def call(node: TFLiteNode, *inputs: Value, subgraph: int) -> Values:
    """The outputs of the called subgraph."""
    return tuple(node.called_subgraph(subgraph, inputs))
