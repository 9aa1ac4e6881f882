"""scf and cf → blocks and branches.

%r = scf.for %i = %lb to %ub step %s iter_args(%a = %init) -> (T) { …; scf.yield %n }

        br header(%lb, %init)
header(%i, %r):  cond_br (%i < %ub), body, exit
body:   …; br header(%i + %s, %n)
exit:   uses of %r
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects import cf, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from qmlir.ir.upstream.llvm import AddOp
from qmlir.lowering.loops_to_llvm.lowering import NO_WRAP, FunctionLowering, Rule


def _for(f: FunctionLowering, op: scf.ForOp) -> None:
    lower, upper, step, *initial = f.values(op.operands)
    known_step = f.known(step)
    if known_step is not None and known_step <= 0:
        f.refuse(op, "must have a positive step", got=str(known_step))
    source = op.body.block
    header = Block(arg_types=[value.type for value in (lower, *initial)])
    body, exit = Block(), Block()
    induction = header.args[0]

    f.branch(header, (lower, *initial))
    f.place(header)
    f.branch_if(f.compare("slt", induction, upper), body, exit)

    f.place(body)
    for argument, lowered in zip(source.args, header.args, strict=True):
        f.define(argument, lowered)
    yielded = _lower_block(f, source)
    f.branch(header, (f.binary(AddOp, induction, step, NO_WRAP), *yielded))

    f.place(exit)
    for result, lowered in zip(op.results, header.args[1:], strict=True):
        f.define(result, lowered)


def _if(f: FunctionLowering, op: scf.IfOp) -> None:
    then, join = Block(), Block(arg_types=[f.lowered_type(result.type) for result in op.results])
    has_else = bool(op.false_region.blocks)
    otherwise = Block() if has_else else join

    f.branch_if(f.value(op.cond), then, otherwise)
    _lower_arm(f, then, op.true_region, join)
    if has_else:
        _lower_arm(f, otherwise, op.false_region, join)

    f.place(join)
    for result, lowered in zip(op.results, join.args, strict=True):
        f.define(result, lowered)


def _lower_arm(f: FunctionLowering, block: Block, region: Region, join: Block) -> None:
    f.place(block)
    f.branch(join, _lower_block(f, region.block))


def _lower_block(f: FunctionLowering, block: Block) -> Sequence[SSAValue]:
    """Lowers a structured body, and returns the lowered values that it yields."""
    operations = list(block.ops)
    if operations and isinstance(last := operations[-1], scf.YieldOp):
        f.lower(operations[:-1])
        return f.values(last.operands)
    f.lower(operations)
    return ()


def _branch(f: FunctionLowering, op: cf.BranchOp) -> None:
    f.branch(f.blocks[op.successor], f.values(op.arguments))


def _branch_if(f: FunctionLowering, op: cf.ConditionalBranchOp) -> None:
    then, otherwise = f.blocks[op.then_block], f.blocks[op.else_block]
    if then is otherwise and op.then_arguments and op.then_arguments != op.else_arguments:
        f.refuse(op, "must not reach one block with different values", remedy="select the values before")
    f.branch_if(f.value(op.cond), then, otherwise, f.values(op.then_arguments), f.values(op.else_arguments))


RULES: Mapping[type[Operation], Rule] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    cf.BranchOp: _branch,
    cf.ConditionalBranchOp: _branch_if,
}
