"""Define the names that a checkpoint may use: torch's own names, plain data, and classes that the program registered.

A `Scope` answers four questions of the pickle reader: what a name means, whether it may be called, whether an object of
a class may be made, and whether an object may be given a state. Every name that is in no table is refused.
"""

import contextlib
import threading

import facula
from facula import storage
from facula._serialization import rebuild

from . import classes, inert
from .errors import UnpicklingError, need
from .pickle_reader import check_key
from .texts import shown

_REBUILD = (
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_sparse_tensor",
    "_rebuild_nested_tensor",
    "_rebuild_qtensor",
    "_rebuild_device_tensor_from_numpy",
    "_rebuild_device_tensor_from_cpu_tensor",
)
_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg", "pathlib._local": "pathlib"}
_NEVER = frozenset(
    {
        "os",
        "posix",
        "nt",
        "sys",
        "subprocess",
        "shutil",
        "importlib",
        "runpy",
        "ctypes",
        "socket",
        "pty",
        "code",
    }
)
_NEVER_BUILTINS = frozenset(
    {
        "eval",
        "exec",
        "compile",
        "open",
        "__import__",
        "getattr",
        "setattr",
        "delattr",
        "globals",
        "locals",
        "vars",
        "input",
        "breakpoint",
        "exit",
        "quit",
        "memoryview",
        "type",
    }
)


class Forbidden(UnpicklingError):
    """Report a name in the stream that a safe load does not restore. `.name` is that name."""

    def __init__(self, name):
        super().__init__(f"load: {name} is not restored")
        self.name = name


# -- what the user registers --------------------------------------------------------------------------

class _Registry:
    """Map names to registrations, the newest last. Each `with` block removes its own, whatever other threads add meanwhile."""

    def __init__(self):
        self._lock = threading.Lock()
        self._items = {}  # name -> list of [item, owner]; owner None is for good

    def add(self, named, owner=None):
        with self._lock:
            for name, item in named:
                entries = [entry for entry in self._items.get(name, ()) if owner or entry[1]]
                # A new list instead of append(): get() reads without the lock.
                self._items[name] = [*entries, (item, owner)]

    def remove(self, owner):
        with self._lock:
            for name, entries in list(self._items.items()):
                left = [entry for entry in entries if entry[1] is not owner]
                if left:
                    self._items[name] = left
                else:
                    del self._items[name]

    def clear(self):
        with self._lock:
            self._items.clear()

    def get(self, name):
        entries = self._items.get(name)  # lists are replaced, never changed: no lock is needed to read
        return entries[-1][0] if entries else None

    def items(self):
        with self._lock:
            return [entries[-1][0] for entries in self._items.values()]


_user_globals = _Registry()


def register(items):
    """Add classes or functions, or (object, "module.name") pairs, to what every load may use."""
    _user_globals.add(_named(items))


def unregister_all():
    _user_globals.clear()


def registered():
    return _user_globals.items()


@contextlib.contextmanager
def registered_for_a_while(items):
    """Add `items` for the length of a with block."""
    owner = object()
    _user_globals.add(_named(items), owner)
    try:
        yield
    finally:
        _user_globals.remove(owner)


def _named(items):
    """Return [(name in checkpoints, item)], all checked."""
    named = []
    for item in items:
        obj, name = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        if not callable(obj) or not isinstance(name, (str, type(None))):
            raise TypeError(
                f"add_safe_globals: expected classes, functions or (object, name) pairs, got {item!r}"
            )
        home = None if isinstance(obj, type) else classes.function_home(obj)
        name = name or f"{home or obj.__module__}.{obj.__qualname__}"
        for module in {obj.__module__ or "builtins", name.rpartition(".")[0]}:
            if module.partition(".")[0] in _NEVER or (
                module == "builtins" and obj.__name__ in _NEVER_BUILTINS
            ):
                raise ValueError(
                    f"add_safe_globals: {name} can run code of a checkpoint's choice and is never safe"
                )
        named.append((_canonical(name), item))
    return named


def _canonical(name):
    module, _, last = name.rpartition(".")
    return f"{classes.torch_name(module)}.{last}"


# -- torch's names ----------------------------------------------------------------------------------


class StorageKind:
    """Represent what the name of a storage class in a stream stands for: a dtype and the size of its elements.

    Args:
        name: the class's, for example "FloatStorage".
        dtype: of its elements, None for an untyped storage.

    >>> torch.serialization.StorageType("FloatStorage", torch.float32).itemsize
    4
    """

    def __init__(self, name: str, dtype: facula.dtype | None):
        self.name, self.dtype = name, dtype
        self.itemsize = dtype.itemsize if dtype is not None else 1


def _layout(name):
    found = getattr(
        facula, name.removeprefix("torch.").removeprefix("facula.") if isinstance(name, str) else "", None
    )
    need(isinstance(found, facula.layout), f"{shown(name)} is not a layout")
    return found


def _size(*args):
    need(
        len(args) == 1 and type(args[0]) in (tuple, list) and all(type(n) is int for n in args[0]),
        "a torch.Size is not built from ints",
    )
    return facula.Size(args[0])


def _device(*args):
    need(
        args and type(args[0]) is str and all(type(a) is int for a in args[1:]),
        "a device is not built from its name",
    )
    try:
        return facula.device(*args)
    except RuntimeError as error:
        raise UnpicklingError(f"load: {error}") from None


def _torch_values():
    values = {}
    for name, kind in list(vars(facula).items()):  # others may import and add to it
        if isinstance(kind, facula.dtype):
            values["torch", name] = kind
        elif isinstance(kind, (facula.memory_format, facula.layout)):
            values["torch", name] = kind
    for name in ("Size", "Tensor", "device", "dtype", "layout", "Generator"):
        values["torch", name] = getattr(facula, name)
    for name, dtype in storage.STORAGE_DTYPES.items():
        if isinstance(getattr(facula, dtype, None), facula.dtype):
            values["torch", name] = values["torch.storage", name] = StorageKind(name, getattr(facula, dtype))
    values["torch.storage", "UntypedStorage"] = values["torch", "UntypedStorage"] = StorageKind(
        "UntypedStorage", None
    )
    values["torch.nn.parameter", "Parameter"] = facula.nn.Parameter
    if hasattr(facula.nn, "Buffer"):
        values["torch.nn.parameter", "Buffer"] = facula.nn.Buffer
    values["torch._tensor", "Tensor"] = facula.Tensor
    for scheme in ("tensor_affine", "tensor_symmetric", "channel_affine", "channel_symmetric", "channel_affine_float_qparams"):
        values["torch", f"per_{scheme}"] = getattr(facula, f"per_{scheme}")
    return values


def _torch_calls():
    calls = {("torch._utils", name): getattr(rebuild, name) for name in _REBUILD}
    calls["torch._tensor", "_rebuild_from_type_v2"] = rebuild._rebuild_from_type_v2
    calls["torch.serialization", "_get_layout"] = _layout
    calls["torch", "Size"] = _size
    calls["torch", "device"] = _device
    return calls


class _Tables:
    """Build both tables at the first load, because dtypes and classes exist only once facula is imported."""

    values = None
    calls = None

    @classmethod
    def fill(cls):
        if cls.values is None:
            cls.calls = {**inert.CALLS, **_torch_calls()}
            cls.values = _torch_values()


class Callable:
    """Represent a name that may be called during a load and has no object of its own."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"<checkpoint function {self.name}>"


# -- the scope ----------------------------------------------------------------------------------------


class Scope:
    """Decide about every name of one load or one save.

    Args:
        whole_objects: also restore instances of classes, as `classes.py` allows (weights_only=False).
    """

    #: what a stream gives its argument without a tuple around it: enums of TorchScript
    bare = ()

    def __init__(self, whole_objects):
        _Tables.fill()
        self.whole_objects = whole_objects
        self._calls = {}  # id of an object handed out -> what to do when it is called
        self._kept = []  # keeps those ids meaningful
        self._made = set()  # classes whose instances this load may fill
        self._found = {}

    def find(self, module, name):
        """Return the object that `module.name` means; Forbidden when a load does not restore it."""
        key = (_RENAMED.get(module, classes.torch_name(module)), "range" if name == "xrange" else name)
        if key not in self._found:
            self._found[key] = self._look_up(*key)
        return self._found[key]

    def _look_up(self, module, name):
        if module == "torch.nested._internal.nested_tensor" and name in ("NestedTensor", "_rebuild_njt"):
            from facula.nested._internal import nested_tensor

            self._made.add(nested_tensor.NestedTensor)
            found = getattr(nested_tensor, name)
            return found if name == "NestedTensor" else self._callable(found, found)
        value = _Tables.values.get((module, name))
        if value is None and name in inert.VALUES.get(module, ()):
            value = _inert_value(module, name)
        builder = _Tables.calls.get((module, name))
        if builder is not None:
            return self._callable(value if value is not None else Callable(f"{module}.{name}"), builder)
        if value is not None:
            return value
        # after the tables: allowing numpy.ndarray does not put NumPy's own restoring in place of the checked one
        user = _user_globals.get(f"{module}.{name}")
        if user is not None:
            user = user[0] if isinstance(user, tuple) else user
            if isinstance(user, type):
                self._made.add(user)
            return self._callable(user, user)
        found = classes.find(module, name) if self.whole_objects else None
        if found is None:
            raise Forbidden(f"{module}.{name}")
        if isinstance(found, type):
            self._made.add(found)
        return found

    def _callable(self, obj, builder):
        self._calls[id(obj)] = builder
        # The key is the identity, which must not be given to another object.
        self._kept.append(obj)
        return obj

    def call(self, function, args):
        """Return what `function(*args)` in a stream gives."""
        builder = self._calls.get(id(function))
        if builder is None and isinstance(function, type) and function in self._made:
            member = self._enum_member(function, args)
            if member is not None:
                return member
        if builder is None:
            raise UnpicklingError(f"load: the pickle calls {_describe(function)}, which a load does not do")
        if builder is rebuild._rebuild_from_type_v2:
            return self._rebuild_from_type(args)
        return builder(*args)

    @staticmethod
    def _enum_member(cls, args):
        if not issubclass(cls, classes.enum.Enum) or len(args) != 1:
            return None
        if type(args[0]) not in (list, dict, set):
            check_key(args[0])
        return classes.enum_member(cls, args[0])

    def _rebuild_from_type(self, args):
        need(len(args) == 4 and type(args[2]) is tuple, "a tensor subclass is malformed")
        function, kind, inner, state = args
        known = isinstance(kind, type) and (kind in (facula.Tensor, facula.nn.Parameter) or kind in self._made)
        need(known, f"{_describe(kind)} is not a tensor class that a load restores")
        return rebuild._rebuild_from_type_v2(lambda *inner: self.call(function, inner), kind, inner, state)

    def new(self, cls, args):
        """Return a new instance of `cls` as a stream's NEWOBJ asks for."""
        builder = self._calls.get(id(cls))
        if isinstance(cls, type) and cls in self._made:
            made = cls.__new__(cls, *args) if builder is not None else classes.new(cls, args)
            if made is not None:
                return made
        if builder is None:
            raise UnpicklingError(f"load: the pickle makes a {_describe(cls)}, which a load does not do")
        return builder(*args)

    def may_call(self, function):
        """Return whether `call` would accept `function`."""
        is_enum = (
            isinstance(function, type) and issubclass(function, classes.enum.Enum) and function in self._made
        )
        return is_enum or id(function) in self._calls

    def may_make(self, cls):
        """Return whether `new` would make an instance of `cls` and `build` fill it."""
        if id(cls) in self._calls:
            return True
        return cls in self._made and (not hasattr(cls, "__setstate__") or classes.may_set_own_state(cls))

    def owns(self, obj):
        """Return whether `obj` is an instance that `new` makes, so that a stream may fill it."""
        return type(obj) in self._made

    def build(self, obj, state, nesting):
        """Give `obj` the state that a stream holds for it."""
        builder = inert.builder_of_state(obj)
        if builder is not None:
            builder(obj, state, nesting)
        elif self.owns(obj):
            self._build_instance(obj, state)
        elif type(obj) in (facula.Tensor, facula.nn.Parameter):
            rebuild.set_attributes(obj, state)
        else:
            raise UnpicklingError(
                f"load: the pickle sets the state of a {_describe(type(obj))}, which a load does not do"
            )

    def _build_instance(self, obj, state):
        own = getattr(type(obj), "__setstate__", None)
        if own is None:
            rebuild.set_attributes(obj, state)
        elif id(type(obj)) in self._calls or classes.may_set_own_state(type(obj)):
            own(obj, state)
        else:
            raise UnpicklingError(
                f"load: {_describe(type(obj))} restores itself by code (__setstate__); "
                "add_safe_globals([that class]) allows it"
            )


class Survey(Scope):
    """Decide about the names in a first pass over a stream, which checks everything but makes no tensor."""

    def call(self, function, args):
        makes_tensor = isinstance(function, Callable) and function.name.startswith(
            ("torch._utils.", "torch._tensor.")
        )
        return None if makes_tensor else super().call(function, args)

    def build(self, obj, state, nesting):
        if obj is not None:
            super().build(obj, state, nesting)


def _inert_value(module, name):
    import importlib

    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        raise UnpicklingError(
            f"load: the checkpoint holds {module} data, and {module} is not installed"
        ) from None


def _describe(obj):
    if isinstance(obj, type):
        return f"{obj.__module__}.{obj.__qualname__}"
    return repr(obj) if isinstance(obj, Callable) else shown(obj)
