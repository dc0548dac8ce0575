"""Install Facula as torch in Python processes that a program under `python -m facula` starts, which find this file
first on their path.

This happens when FACULA_AS_TORCH is set. Then the sitecustomize that this one hides runs, if there is one.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_sitecustomize():
    path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Later:
    """Import Facula at the first import of torch, so that Python programs that do not use torch start without delay."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "torch":
            return None
        sys.meta_path.remove(_Later)
        from facula.compat import aliases, install

        install()
        return aliases.TorchFinder().find_spec(name, path, target)

    @staticmethod
    def find_distributions(context=None):
        if context is None or getattr(context, "name", None) not in (None, "torch"):
            return
        sys.meta_path.remove(_Later)
        from facula.compat import aliases, install

        install()
        yield from aliases.TorchFinder().find_distributions(context)


if os.environ.get("FACULA_AS_TORCH") == "1":
    _package_parent = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
    if importlib.util.find_spec("facula") is None:
        sys.path.append(_package_parent)
    sys.meta_path.insert(0, _Later)
_run_hidden_sitecustomize()
