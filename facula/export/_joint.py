"""Join forward and backward of an exported program in one program (src/program/passes/joint.cpp).

The program runs once more, on its examples, while ops are recorded below autograd; then its backward pass is recorded. Where
sizes vary it does so for several sizes, and every number that differs has to follow from them.
"""

from __future__ import annotations

import facula
from facula.export._functional import examples_at, surveyed
from facula.export._record import SizeDependence
from facula.utils import _pytree


def joint_program(exported, loss=0, differentiable=False):
    """Return an ExportedProgram that gives the results of another one, and then gradients; `graph_signature` says of what.

    Args:
        exported: an ExportedProgram with examples.
        loss: which result is differentiated, a scalar; None: all, and cotangents are inputs behind the others.
        differentiable: whether the gradients can be differentiated in turn, by `joint_program` of the result.

    Errors: RuntimeError where the loss is no scalar or nothing requires a gradient; NotImplementedError for a program that
    chooses by values (cond, while_loop).
    """

    def at(samples):
        examples = [e for e, i in zip(examples_at(exported, samples), exported.program.inputs) if i[0] == "user"]
        return exported.program.joint(examples, -1 if loss is None else loss, differentiable)[0]

    if not exported.program.symbols:
        program = at({})
    else:
        program = generalized(surveyed(exported, at))
    return _exported(exported, program, loss)


def generalized(survey):
    """Return the first program of a survey, for all sizes: numbers that differ are expressions.

    Args:
        survey: a `Survey`, whose programs have numbers only.
    """
    first, *others = survey.programs
    columns = zip(first.nodes, *(p.nodes for p in others))
    for i, nodes in enumerate(columns):
        for k, given in enumerate(zip(*(n[2] for n in nodes))):
            _generalize(survey, first, i, k, nodes[0], given)
    for number, (sizes, (_, _, meta)) in enumerate(zip(survey.sizes, first.values)):
        if sizes is not None and any(isinstance(s, str) for s in sizes):
            actual = meta[1]
            if not any(isinstance(s, str) for s in actual):
                first.set_sizes(number, [n if f is None else f for n, f in zip(actual, sizes)])
    return first


def _generalize(survey, program, i, k, node, given):
    """Generalize argument `k` of node `i`, which is `given` in the programs."""
    kinds, values = zip(*given)
    if set(kinds) != {"constant"} or all(v == values[0] or v != v for v in values):
        if len({str(g) for g in given}) > 1:
            raise _dependent(survey, node, values)
        return
    if all(isinstance(v, list) for v in values) and len({len(v) for v in values}) == 1:
        made = [_fitted(survey, node, column) for column in zip(*values)]
    else:
        made = _fitted(survey, node, values)
    program.set_argument(i, k, made)


def _fitted(survey, node, values):
    if all(v == values[0] for v in values):
        return values[0]
    whole = [int(v) if isinstance(v, (int, float)) and v == v and abs(v) < 2**53 and v == int(v) else None for v in values]
    found = None if None in whole else survey.fit(whole)
    if found is None:
        raise _dependent(survey, node, values)
    return found


def _dependent(survey, node, values):
    return SizeDependence(
        f"joint: an argument of {node[0]} at {node[5] or 'an unknown line'} depends on sizes that vary in a way that cannot be "
        f"written down, got {list(values)}", survey.names,
    )  # fmt: skip


def _exported(exported, program, loss):
    """Return the program with its specs: results and gradients are a flat tuple."""
    from facula.export.exported_program import ExportedProgram

    in_spec, inputs = exported.call_spec.in_spec, exported.example_inputs
    if loss is None:
        args, kwargs = inputs or ((), {})
        values = {v[0]: v[2] for v in program.values}
        tangents = [values[i[2]] for i in program.inputs if i[0] == "user" and i[2].startswith("tangents_")]
        sizes = [[s if isinstance(s, int) else 1 for s in meta[1]] for meta in tangents]
        inputs = ((*args, *(facula.ones(n, dtype=m[0]) for n, m in zip(sizes, tangents))), kwargs)
        in_spec = _pytree.tree_structure(inputs)
    out_spec = _pytree.tree_structure(tuple(range(len(program.outputs))))
    return ExportedProgram(program, in_spec, out_spec, inputs, exported._names)
