"""Explain why a checkpoint was refused: the names in it that a load does not restore."""

import sys
from collections import OrderedDict

from .allowed import _RENAMED
from .errors import UnpicklingError


def names_in_pickle(data, start=0):
    """Return every "module.name" that the pickle at `start` mentions, in order of first use; executes nothing."""
    import pickletools

    names, texts, memo, last = OrderedDict(), [], {}, None
    try:
        for op, arg, _ in pickletools.genops(bytes(data[start:])):
            if op.name == "GLOBAL":
                names[arg.replace(" ", ".")] = True
            elif op.name == "STACK_GLOBAL" and len(texts) >= 2:
                names[".".join(texts[-2:])] = True
            elif op.name == "MEMOIZE":
                memo[len(memo)] = last
            elif op.name in ("BINPUT", "LONG_BINPUT"):
                memo[arg] = last
            if op.name in ("BINGET", "LONG_BINGET") and isinstance(memo.get(arg), str):
                texts.append(memo[arg])
            if op.name not in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
                last = arg if isinstance(arg, str) and "UNICODE" in op.name else None
                texts += [last] if last is not None else []
    except Exception:  # a malformed rest: the names so far are what there is to report
        pass
    return [_canonical_name(n) for n in names]


def _canonical_name(name):
    module, _, last = name.rpartition(".")
    return f"{_RENAMED.get(module, module)}.{last}"


def forbidden_names(data, scope, start=0):
    """Return those of `names_in_pickle` that `scope` refuses."""
    refused = []
    for name in names_in_pickle(data, start):
        try:
            scope.find(*name.rpartition(".")[::2])
        except UnpicklingError:
            refused.append(name)
    return refused


def _home_that_is_not_imported(name):
    """Return the module in "module.Class" if the program has not imported it, else None."""
    parts = name.split(".")
    homes = [".".join(parts[:count]) for count in range(1, len(parts))]
    found = not homes or parts[0] in ("torch", "facula") or any(home in sys.modules for home in homes[-1:])
    return None if found or parts[0] in sys.stdlib_module_names else homes[-1]


def explain_refusal(names):
    """Return the text for a checkpoint that names things a load does not restore."""
    listed = ", ".join(names)
    homes = sorted({_home_that_is_not_imported(name) for name in names} - {None})
    missing = f"Not imported by this program, for a load imports nothing: {', '.join(homes)}. " if homes else ""
    return (
        f"load: this checkpoint names what a safe load does not restore: {listed}. {missing}"
        "If you trust where it comes from, allow those classes with "
        "facula.serialization.add_safe_globals([...]); "
        "weights_only=False restores instances of classes that this program has imported "
        "(modules saved whole "
        "among them), without running the file's code. Better: save model.state_dict() and plain data."
    )
