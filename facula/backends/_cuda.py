"""What programs say about CUDA's libraries: kept here, and told where the libraries are called (src/cuda/flags.h)."""

from facula import _C

_PARTS = ("matmul", "conv", "rnn")
# "all" stands above "cuda", "cuda" above the parts; "none" is what stands above
_said = {"all": "none", "cuda": "none", "matmul": "none", "conv": "tf32", "rnn": "tf32"}
_matmul_word = "highest"


def precision(part):
    """How exact float32 is in a part: "ieee", "tf32", or "none" where nothing was said."""
    return next((_said[level] for level in (part, "cuda", "all") if _said[level] != "none"), "none")


def set_precision(part, value):
    """Sets it for a part, or for all parts below."""
    if value not in ("none", "ieee", "tf32", "bf16"):
        raise RuntimeError(f"Unknown precision: {value}")
    if value == "bf16":
        raise RuntimeError(f"backend 'cuda' does not support precision {value!r}")
    for each in (part, *{"all": ("cuda", *_PARTS), "cuda": _PARTS}.get(part, ())):
        _said[each] = value
    for each in _PARTS:
        _C._cuda_set_flag(f"{each}_tf32", precision(each) == "tf32")


def matmul_word():
    """How exact float32 products are, in the words of set_float32_matmul_precision."""
    return _matmul_word if (precision("matmul") == "tf32") == (_matmul_word != "highest") else "high"


def set_matmul_word(word):
    """ "highest" computes with float32, "high" and "medium" allow TF32."""
    global _matmul_word
    _matmul_word = word
    set_precision("matmul", "ieee" if word == "highest" else "tf32")


def need_bool(name, value):
    """Raises unless `value` is True or False."""
    if not isinstance(value, bool):
        raise RuntimeError(f"{name}: True or False, got {type(value).__name__}")
    return value


class Switch:
    """True or False, kept in the class of a module; the library is told under the name of `flag`."""

    def __init__(self, value, flag=None):
        self.value, self.flag = value, flag

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, module, owner=None):
        return self.value

    def __set__(self, module, value):
        self.value = need_bool(self.name, value)
        if self.flag:
            _C._cuda_set_flag(self.flag, value)


class Precision:
    """`fp32_precision` of a part."""

    def __init__(self, part):
        self.part = part

    def __get__(self, module, owner=None):
        return precision(self.part)

    def __set__(self, module, value):
        set_precision(self.part, value)


class PartPrecision:
    """A part whose one attribute is `fp32_precision`."""

    def __init__(self, part):
        object.__setattr__(self, "_part", part)

    @property
    def fp32_precision(self):
        """How exact float32 is there."""
        return precision(self._part)

    @fp32_precision.setter
    def fp32_precision(self, value):
        set_precision(self._part, value)
