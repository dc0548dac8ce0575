"""Hold the settings of CUDA's libraries, and pass them to the code that calls the libraries (src/cuda/flags.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

_PARTS = ("matmul", "conv", "rnn")
# What was said of each; "all" stands above "cuda", "cuda" above the parts, "none" is what stands above, and a part of which
# nothing was said has its preset where nothing was said above either. Beside it stand the older switches, which say less:
# where the two disagree, reading the older is an error, as in PyTorch.
_said = dict.fromkeys(("all", "cuda", *_PARTS))
_PRESET = {"conv": "tf32", "rnn": "tf32"}
_older = {"matmul": "highest", "cudnn": True}


def precision(part):
    """Return how exact float32 is in a part: "ieee", "tf32", or "none" where nothing was said."""
    levels = ("all",) if part == "all" else (part, "cuda", "all")
    said = next((_said[level] for level in levels if _said[level] not in (None, "none")), None)
    if said is None:
        return _PRESET.get(part, "none") if _said[part] is None else "none"
    return said if part == "all" or said != "bf16" else "none"  # which CUDA has not


def set_precision(part, value):
    """Set it for a part, or for all parts below of which nothing was said."""
    if value not in ("none", "ieee", "tf32", "bf16"):
        raise RuntimeError(f"fp32_precision: a precision must be {_C._one_of(value, ('none', 'ieee', 'tf32', 'bf16'))}")
    if value == "bf16" and part != "all":
        raise RuntimeError(f"cuda: a precision of this backend is expected, got {value!r}")
    _said[part] = value
    _tell()


def _tell():
    for each in _PARTS:
        _C._cuda_set_flag(f"{each}_tf32", precision(each) == "tf32")


def settings():
    """Return what was said, for `restore`."""
    return dict(_said), dict(_older)


def restore(before):
    """Go back to what `settings` gave."""
    _said.update(before[0])
    _older.update(before[1])
    _tell()


_MIXED = (
    "{0}: the older and the newer switches of TF32 disagree ({1}); use only the newer, fp32_precision, of "
    "backends.cuda.matmul, backends.cudnn.conv and backends.cudnn.rnn"
)


def matmul_word():
    """Return how exact float32 products are, in the words of set_float32_matmul_precision."""
    word = _older["matmul"]
    if (precision("matmul") == "tf32" and word == "highest") or (_said["all"] == "bf16" and word != "medium"):
        said = f"{word!r}, and fp32_precision {precision('matmul')!r}"
        raise RuntimeError(_MIXED.format("get_float32_matmul_precision", said))
    return word


def set_matmul_word(word):
    """ Set the precision: "highest" computes with float32, "high" and "medium" allow TF32."""
    _older["matmul"] = word
    set_precision("matmul", "ieee" if word == "highest" else "tf32")


def products_allow_tf32():
    """Return whether products of float32 may round their factors, where both switches say the same."""
    older, newer = _older["matmul"] != "highest", precision("matmul")
    if older != (newer == "tf32"):
        raise RuntimeError(_MIXED.format("allow_tf32", f"matrix products: {older}, and fp32_precision {newer!r}"))
    return older


def cudnn_allows_tf32():
    """Return whether cuDNN may round float32, where all switches say the same."""
    older, conv, rnn = _older["cudnn"], precision("conv"), precision("rnn")
    if older != (conv == "tf32") or older != (rnn == "tf32"):
        said = f"cuDNN: {older}, and fp32_precision {conv!r} of convolutions, {rnn!r} of recurrent layers"
        raise RuntimeError(_MIXED.format("allow_tf32", said))
    return older


def set_cudnn_allows_tf32(value):
    """Set the older switch, of convolutions and recurrent layers."""
    _older["cudnn"] = need_bool("allow_tf32", value)
    for part in ("conv", "rnn"):
        set_precision(part, "tf32" if value else "none")


def need_bool(name, value):
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool):
        raise RuntimeError(f"{name}: expected True or False, got {type(value).__name__}")
    return value


class Switch:
    """Hold True or False in the class of a module, and pass it to the library under the name of `flag`."""

    flag: str | None

    def __init__(self, value: Any, flag: str | None = None) -> None:
        self.value, self.flag = value, flag

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: Any = None) -> int | str:
        return self.value

    def __set__(self, module: Any, value: Any) -> None:
        self.value: bool = need_bool(self.name, value)
        if self.flag:
            _C._cuda_set_flag(self.flag, value)


class Number(Switch):
    """Hold a count in the class of a module, and pass it to the library."""

    def __set__(self, module, value):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise RuntimeError(f"{self.name}: a count, got {value!r}")
        self.value = value
        _C._cuda_set_flag(self.flag, value)


class Word(Switch):
    """Hold one of several words; the first is the default, and the last one sets the flag."""

    def __init__(self, words, flag):
        super().__init__(words[0], flag)
        self.words = words

    def __set__(self, module, value):
        if value not in self.words:
            raise RuntimeError(f"{self.name}: the value must be {_C._one_of(value, self.words)}")
        self.value = value
        _C._cuda_set_flag(self.flag, value == self.words[-1])


class Precision:
    """Read and set `fp32_precision` of a part."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __get__(self, module: Any, owner: Any = None) -> Any:
        return precision(self.part)

    def __set__(self, module: Any, value: Any) -> None:
        set_precision(self.part, value)


class PartPrecision:
    """Represent a part whose one attribute is `fp32_precision`."""

    def __init__(self, part: str) -> None:
        object.__setattr__(self, "_part", part)

    @property
    def fp32_precision(self) -> Any:
        """How exact float32 is there."""
        return precision(self._part)

    @fp32_precision.setter
    def fp32_precision(self, value: Any) -> None:
        set_precision(self._part, value)
