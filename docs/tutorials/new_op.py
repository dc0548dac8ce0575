# %% [markdown]
# # An op from schema to test
#
# This tutorial shows what it takes to add an element-wise op. The example is an op that exists, `logaddexp2`, which is
# `log2(2**a + 2**b)`. The files are read from the repository when this page is made, so they are current.
#
# An op is stated once, in `ops/<topic>.yaml`. From this statement the build generates the Python function with its
# docstring and stub, the method, the node of the backward pass, the rule for `vmap`, the C++ functions, a page of this
# site, and tests. Only the arithmetic is written by hand.
#
# ## 1. The statement

# %%
import re
from pathlib import Path

import facula as torch

ROOT = Path(__file__).parents[2]


def show(path, pattern):
    """Print the part of a file that begins with the pattern, up to the next blank line."""
    text = (ROOT / path).read_text()
    print(f"# {path}\n{text[re.search(pattern, text).start():].split(chr(10) * 2)[0]}")


show("ops/elementwise.yaml", r"- op: logaddexp2\(")

# %% [markdown]
# | key | what it says |
# |---|---|
# | `op` | arguments, types and results; `Operand` in the place of `Tensor` would take numbers, too |
# | `kind` | `binary`: shapes broadcast, and `vmap` runs it once on the batch |
# | `dtypes` | what it takes; integers become the default dtype where no integers are named |
# | `variants` | which forms there are besides the function |
# | `scalar` | the function that computes one element |
# | `grad` | the derivative for each argument, in terms of ops |
# | `reference` | what the tests compare with |
# | `doc`, `arguments`, `errors`, `example` | the docstring |
#
# All keys and kinds: [the op schema](../../ops/README.md).
#
# ## 2. The arithmetic
#
# The arithmetic is one function template in plain C++. The compiler makes vector code of it for three levels of x86-64,
# and NVRTC a CUDA kernel:

# %%
show("src/kernels/elementwise.h", r"template <Real T>\n[^\n]*\blogaddexp2\(T")

# %% [markdown]
# Nothing else is needed. `ninja -C build/dev` generates and compiles the rest.
#
# ## 3. What is generated

# %%
import sys

sys.path.append(str(ROOT))
from codegen import schema

(op,) = [op for op in schema.load(ROOT / "ops") if op.id == "logaddexp2"]
op.variants, op.elementwise, [a.name for a in op.inputs], sorted(op.grad)

# %%
print(torch.logaddexp2.__doc__)

# %% [markdown]
# The function broadcasts, has a derivative, and works under `vmap`:

# %%
a = torch.tensor([[1.0], [10.0]], requires_grad=True)
b = torch.tensor([1.0, 2.0, 3.0])
result = torch.logaddexp2(a, b)
result.sum().backward()
result, a.grad

# %%
torch.func.vmap(torch.logaddexp2, in_dims=(0, None))(a.detach(), b).shape

# %% [markdown]
# ## 4. The tests
#
# `tests/test_ops.py` tests every op by its statement: values against the reference in all dtypes, `gradcheck` and
# `gradgradcheck`, strides, `out=`, in-place, and the batching rule. Here are some of these tests, done by hand:

# %%
import numpy as np

x, y = np.random.default_rng(0).normal(size=(2, 1000))
np.abs(torch.logaddexp2(torch.from_numpy(x), torch.from_numpy(y)).numpy() - np.logaddexp2(x, y)).max() < 1e-14

# %%
probe = [torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
torch.autograd.gradcheck(torch.logaddexp2, probe), torch.autograd.gradgradcheck(torch.logaddexp2, probe)

# %% [markdown]
# ```
# PYTHONPATH=. python -m pytest -q tests/test_ops.py -k logaddexp2
# ```
#
# `tests/test_docstrings.py` runs the example in the statement.
#
# ## Other ops
#
# An op that does not work on single elements needs one more file: `ops::name` in `src/ops/<topic>.cpp` checks shapes
# and makes the result, and a kernel in `src/cpu/<topic>.cpp` fills it. An op that is written with other ops (`kind:
# composite`) is one function in `src/composite/<topic>.cpp` and needs no derivative. [How it works
# inside](../internals.md) explains what happens when an op is called.
