"""Define the words of the schema: types, kinds, sets of dtypes, and the keys that an entry may have."""

from __future__ import annotations

# schema type -> C++ parameter type
CPP_TYPES = {
    "Tensor": "const Tensor&",
    "Tensor?": "const Tensor&",
    "Tensor[]": "TensorList",
    "Operand": "const Operand&",
    "Scalar": "const Scalar&",
    "Scalar?": "const std::optional<Scalar>&",
    "int": "int64_t",
    "int?": "std::optional<int64_t>",
    "float": "double",
    "float?": "std::optional<double>",
    "bool": "bool",
    "bool?": "std::optional<bool>",
    "int[]": "IntList",
    "int[]?": "std::optional<IntList>",
    "float[]": "FloatList",
    "float[]?": "std::optional<FloatList>",
    "str": "std::string_view",
    "str?": "std::optional<std::string_view>",
    "dtype": "DType",
    "dtype?": "std::optional<DType>",
    "device?": "std::optional<Device>",
    "layout?": "std::optional<Layout>",
    "memory_format": "MemoryFormat",
    "memory_format?": "std::optional<MemoryFormat>",
    "Generator?": "Generator*",
}
RETURN_TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "std::vector<Tensor>",
    "bool": "bool",
    "int": "int64_t",
    "float": "double",
    "Scalar": "Scalar",
}
TENSOR_TYPES = ("Tensor", "Tensor?", "Tensor[]", "Operand")
NUMBER_TYPES = ("Scalar", "float", "int", "bool")

ELEMENTWISE = ("unary", "binary", "ternary")
NATIVE = ("reduce", "scan", "index", "matmul", "conv", "pool", "norm", "native", "factory", "random")
DEFAULT_VARIANTS = {
    **dict.fromkeys(ELEMENTWISE, ("function", "method", "inplace", "out")),
    **dict.fromkeys(NATIVE, ("function", "method", "out")),
    "view": ("function", "method"),
    "factory": ("function", "out"),
    "random": ("function", "out"),
    "composite": ("function", "method"),
}
INPUTS = {"unary": 1, "binary": 2, "ternary": 3}
RESULTS = ("same", "bool", "real", "int64", "complex")
LOOPS = ("light", "steps")  # what the time of an element-wise loop is, beside that of memory
ROLES = ("condition", "factor")  # what an operand or number of an element-wise op does, beside computing
AUTOCAST = ("lower", "float32", "promote", "unchanged", "refused")  # what autocast does to the inputs, see src/autograd/autocast.h
AUTOCAST_DEVICES = ("cpu", "cuda")
VARIANTS = ("function", "method", "inplace", "out")

INTEGERS = ("UInt8", "Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32", "UInt64")
FLOATS = ("Float16", "BFloat16", "Float32", "Float64")
COMPLEX = ("Complex32", "Complex64", "Complex128")
DTYPE_SETS = {
    "all": ("Bool", *INTEGERS, *FLOATS, *COMPLEX),
    "number": (*INTEGERS, *FLOATS, *COMPLEX),
    "real": (*INTEGERS, *FLOATS),
    "bits": ("Bool", *INTEGERS),
    "integral": INTEGERS,
    "floating": FLOATS,
    "inexact": (*FLOATS, *COMPLEX),
    "complex": COMPLEX,
    "bool": ("Bool",),
}
NAMED_DTYPES = {
    "uint8": "UInt8", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32",
    "float64": "Float64", "complex32": "Complex32", "complex64": "Complex64", "complex128": "Complex128",
}  # fmt: skip
# what every factory takes besides its own arguments; only dtype and device reach C++
FACTORY_KEYWORDS = (
    ("dtype?", "dtype", "None"), ("layout?", "layout", "None"), ("device?", "device", "None"),
    ("bool?", "pin_memory", "False"), ("bool?", "requires_grad", "False"),
)  # fmt: skip
# key of an entry -> the field of Op that holds what it says
KEYS = {
    "op": "signature", "kind": "kind", "dtypes": "dtypes", "result": "result", "scalar": "scalar", "quick": "quick", "loop": "loop", "roles": "roles", "names": "names",
    "variants": "variants", "inplace": "direct_inplace", "out": "out_casts", "grad": "grad", "no_gradient": "no_gradient",
    "layout": "keeps_layout", "aten": "aten", "effects": "writes", "batch": "batch", "autocast": "autocast", "checks": "checks", "sparse": "sparse", "reference": "reference", "doc": "doc",
    "arguments": "argument_docs", "returns": "returned", "errors": "errors", "example": "example", "samples": "samples",
}  # fmt: skip
SPARSE = ("values", "linear", "written", "own", "inplace")  # what an op does with sparse tensors; or the name of an op that takes over
CHECKS = ("tensor", "one_dtype", "runtime", "degree", "quotient", "any_device", "shared_places", "apart")  # what an op refuses or lets pass against its kind's rule
