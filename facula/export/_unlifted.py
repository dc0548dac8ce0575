"""An exported program as a module: parameters under their paths, called with the arguments of the original."""

from __future__ import annotations

import facula
from facula import _C
from facula.export._graph import Builder
from facula.fx.graph import _PyTreeCodeGen, _PyTreeInfo


def keep(root, path, tensor, kind, persistent):
    """Gives a module a parameter or a buffer under a path, with modules on the way."""
    *parents, name = path.split(".")
    for parent in parents:
        if parent not in root._modules:
            root.add_module(parent, facula.nn.Module())
        root = root._modules[parent]
    if kind == "parameter":
        root.register_parameter(name, tensor if isinstance(tensor, facula.nn.Parameter) else facula.nn.Parameter(tensor))
    else:
        root.register_buffer(name, tensor, persistent=persistent and kind == "buffer")


def unlift(exported, check_guards):
    """The GraphModule of `ExportedProgram.module()`."""
    program, root = exported.program, facula.nn.Module()
    kinds = {path: (kind, persistent) for kind, _, path, persistent, _, _ in program.inputs}
    builder = Builder(program, lifted=False, keep=lambda path, tensor: keep(root, path, tensor, *kinds[path]))
    outputs = builder.run()
    spec = exported.call_spec
    builder.graph.output(outputs)
    for name, graph in builder.modules.items():
        root.add_module(name, graph)
    names = _argument_names(exported)
    builder.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec.in_spec, spec.out_spec)))
    module = facula.fx.GraphModule(root, builder.graph, "GraphModule")
    if check_guards:
        guard = _Guard(exported)
        module.register_forward_pre_hook(guard, with_kwargs=True)
    return module


def _argument_names(exported):
    args, kwargs = exported.call_spec.in_spec.children_specs
    names = exported._names[: args.num_children]
    names += [f"arg_{i}" for i in range(len(names), args.num_children)]
    return [*names, *(kwargs.context or [])]


class _Guard:
    """Checks inputs as the interpreter does: by a program with the same inputs of the user, and without nodes."""

    def __init__(self, exported):
        lines = [line for line in exported.program.text().splitlines() if line.startswith(("symbol ", "guard ", "input user "))]
        self.exported, self.checks = exported, _C._Program.parse("\n".join([*lines, "return\n"]))

    def __call__(self, module, args, kwargs):
        self.checks.run(self.exported._flat_inputs(args, kwargs))
