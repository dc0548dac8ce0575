"""What `compile` makes of a module. Nothing is compiled."""

from facula import nn

__all__ = ["OptimizedModule"]


class OptimizedModule(nn.Module):
    """A module under the name `_orig_mod`; attributes are those of the module inside, and so are new ones.

    Args:
        mod: the module.
    """

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.training = mod.training

    def forward(self, *args, **kwargs):
        return self._modules["_orig_mod"](*args, **kwargs)

    def __getattr__(self, name):
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod" or "_orig_mod" not in modules:
            return super().__getattr__(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name == "training" or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __len__(self):
        return len(self._modules["_orig_mod"])

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})


def __getattr__(name):
    from facula.compat import placeholders

    return placeholders.member("torch._dynamo", name)


from . import eval_frame  # noqa: E402, F401  programs reach it as an attribute
