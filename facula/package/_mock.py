"""Replace modules that were not packed by objects of any name that refuse to be used.

The text of this file is written into packages as their module `_mock`, so it must not import anything.
"""


class MockedObject:
    """Represent any name of a mocked module. It can be passed on, and every use of it is an error."""

    def __new__(cls, *args, **kwargs):
        if not kwargs.get("_suppress_err"):
            raise NotImplementedError(f"{cls.__name__}: it was mocked when the package was made, so that it has no instances")
        return super().__new__(cls)

    def __init__(self, name, _suppress_err):
        self.__dict__["_name"] = name

    def __repr__(self):
        return f"MockedObject({self._name})"


def _refuses(method):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{self._name}: it is only a mock in this package, and {method} needs the object itself")

    return refuse


for _method in """
    abs add and bool bytes call ceil complex contains copy deepcopy delattr delitem dir divmod enter eq exit float floor
    floordiv ge getattr getitem getstate gt hash iadd iand ifloordiv ilshift imod imul index instancecheck int invert ior
    ipow irshift isub iter itruediv ixor le len lshift lt mod mul ne neg or pos pow rand rdivmod reduce reversed round
    rrshift rshift setattr setitem sizeof sub subclasscheck truediv trunc xor
    """.split():
    setattr(MockedObject, f"__{_method}__", _refuses(f"__{_method}__"))
