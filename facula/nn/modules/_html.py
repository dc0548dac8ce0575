"""Show modules in notebooks: a tree that folds, as HTML (facula/_tensor/html.py)."""

from __future__ import annotations

from facula._tensor.html import MONO, MUTED, escaped, facts_of, repr_html
from facula.nn.parameter import is_lazy

NODES = 400  # modules of a tree
DEEP = 40  # levels of a tree

INSIDE = "margin-left:1.3em;border-left:1px solid rgba(128,128,128,.4);padding-left:.6em"


def _count(parameters):
    """Count the numbers in parameters; those of lazy modules have none yet."""
    return sum(parameter.numel() for parameter in parameters if not is_lazy(parameter))


def _has_own_repr(module):
    """Return True if a class of a program says how it looks."""
    home = next(cls for cls in type(module).__mro__ if "__repr__" in vars(cls)).__module__
    return not home.startswith(("facula.", "torch."))


def _own(module):
    """Return a row for each parameter and buffer of the module itself."""
    rows = []
    for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
        for name, tensor in held.items():
            if tensor is not None:
                facts = type(tensor).__name__ if "Uninitialized" in type(tensor).__name__ else " · ".join(facts_of(tensor)[:3])
                rows.append(f'<div>{escaped(name)} <span style="{MUTED}">{kind} {escaped(facts)}</span></div>')
    return rows[:NODES]


class _Tree:
    """Build the nested lists of a module. One object builds one tree, because it counts the rows to bound the size."""

    def __init__(self):
        self.nodes = 0

    def node(self, module, name, above=()):
        self.nodes += 1
        count = _count(module.parameters())
        label = f"<b>{escaped(name)}</b> " if name else ""
        label += escaped(module._get_name())
        extra = escaped(module.extra_repr())
        facts = [f"({extra})"] * bool(extra) + [f"{count:,} parameters"] * bool(count)
        label += f' <span style="{MUTED}">{" ".join(facts)}</span>' if facts else ""
        if module in above or len(above) >= DEEP:
            return f"<div>{label} …</div>"
        if _has_own_repr(module):
            inside = [repr_html(module)]
        else:
            inside = _own(module) + self.children(module, (*above, module))
        if not inside:
            return f"<div>{label}</div>"
        opened = " open" if not above else ""
        return f'<details{opened}><summary>{label}</summary><div style="{INSIDE}">{"".join(inside)}</div></details>'

    def children(self, module, above):
        found = []
        for i, (name, child) in enumerate(module._modules.items()):
            if child is None:
                continue
            if self.nodes >= NODES:
                return [*found, f"<div>… and {len(module._modules) - i:,} more</div>"]
            found.append(self.node(child, name, above))
        return found


def module_html(module: object) -> str:
    """Return a module as HTML: a tree that folds, with what each part has and how many parameters."""
    try:
        return f'<div style="{MONO}">{_Tree().node(module, "")}</div>'
    except Exception:  # a part that cannot be shown so
        return repr_html(module)
