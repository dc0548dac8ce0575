"""Differences from PyTorch that are on purpose, each with its reason; `differences.py` applies the table.

A reason stands once, with the patterns that it explains: the kind of a difference, the statement at which it is seen, the program up to
there, and what PyTorch and Facula said, whichever says most exactly what is meant. What a user would not notice (another number,
gradient, dtype or shape without an exception) is here only where no right answer exists or PyTorch's is worse; `only` then says which
numbers it must be seen in, so that no other error hides behind the pattern.
"""

from __future__ import annotations

from typing import NamedTuple


class Pattern(NamedTuple):
    kind: str  # regular expressions: of the kind of difference,
    statement: str = ""  # of the statement at which it is seen,
    program: str = ""  # of the program up to there,
    said: str = ""  # and of the texts of both exceptions, "PyTorch's | Facula's", and the two values
    # "nan": a value is NaN; "extreme": one is NaN, infinite, or above 1e5 in size; "zero": one side's are all zero; "step": what differs
    # differs by one
    only: str = ""


_THEIRS = "only PyTorch raises (RuntimeError|NotImplementedError)"
_BOTH = "^error class"
_VIEW = r"\.(select|split|narrow|chunk|unbind|expand|diagonal|as_strided|transpose|t|flatten|view|unfold|movedim|swapaxes|permute|squeeze|unsqueeze|reshape|T|mT|detach|data)\b|\["

_ROUNDED = "i0|i1|exp|log|sin|cos|tan|sigmoid|erf|gamma|window|fft|norm|conv|linear|@|mul|mean|std|var|sqrt|pow|sum|linalg|softmax|gelu|silu|psi"

ACCEPTED: dict[str, list[Pattern]] = {
    # ---- Facula does what PyTorch refuses
    "Facula computes what PyTorch has no kernel for": [
        Pattern(_THEIRS, said='^"\\w+" not implemented for|^Unsupported (input type|dtype)|does not support complex (dtypes|input)|^Could not run|^Cannot access (storage|data pointer)|MKL FFT error|INTERNAL ASSERT|^Expected both inputs to be Half, Float or Double'),
    ],
    "Facula computes with operands of different dtypes in their common dtype": [
        Pattern(_THEIRS, said="^(expected scalar type|expected m1 and m2|Expected .*(same|scalar) (d?type|types)|.*must (have|be) the same dtype|.*[Ee]xpected .* to have the same dtype|Index put requires the source and destination dtypes match|result type .* can't be cast)"),
    ],
    "Facula differentiates what PyTorch does not": [
        Pattern(_THEIRS, said="does not support automatic differentiation|derivative for aten::\\w+ is not implemented|is not differentiable with respect to|the derivative for|Trying to use forward AD with|implicitly created only for real"),
        Pattern("^(requires_grad|is_leaf)", "bessel_|scaled_modified|vander"),
        Pattern("^value", "vander", only="extreme"),
        Pattern("^kind", "(?s)dual_level.*(bessel_|scaled_modified)"),
        Pattern("^value", "jvp\\(torch\\.special\\.(bessel_|scaled_modified|modified)"),
        Pattern("^gradient only ours", "backward", said="is not implemented"),
        Pattern("^gradient only ours", "both\\(", program="%|//|remainder|floor_divide"),
    ],
    "a result in an integer dtype has no gradient; PyTorch refuses to compute it": [Pattern(_THEIRS, said="^Autograd not support dtype")],
    "a graph of which nothing was saved can be walked again": [Pattern(_THEIRS, said="^Trying to backward through the graph a second time")],
    "Facula did not save what was written to, or saved a copy": [Pattern("backward only theirs", said="^one of the variables needed for gradient computation has been modified")],
    "PyTorch's own backward pass fails on dtypes that its forward pass mixed, or on truth values": [
        Pattern("backward only theirs", said="^(Found dtype|Expected isFloatingType|expected scalar type|(torch boolean negative|Negation), the `-` operator|Trying to use a saved tensor that has been detached in-place)"),
    ],
    "PyTorch's implementation gives no answer: its view, gradient or hook cannot be used any more": [
        Pattern("^kind", said="shown: RuntimeError"),
        Pattern(_THEIRS, said="^Output 0 of (BackwardHookFunction|AsStrided)|^Function \\w+ returned an invalid gradient|^output with shape .* doesn't match the broadcast shape|^unsupported operation: more than one element|^A view was created in no_grad mode|^derivative for set_"),
    ],
    "slices may run backwards": [Pattern("PyTorch raises ValueError|^error class ValueError", said="step must be greater than zero")],
    "a truth value counts as 0 and 1 beside numbers": [Pattern(_THEIRS, said="^Subtraction, the `-` operator|^Boolean alpha only supported")],
    "float_power_ writes back into the tensor's dtype": [Pattern(_THEIRS, "float_power_")],
    "arguments may also be named as in the schema of operators (self=)": [Pattern("(only PyTorch raises|error class) TypeError", "self=")],
    "numbers too large for a dtype are infinite, as in tensor()": [Pattern(_THEIRS, said="cannot be converted to type .* without overflow")],
    "axis= is another name of dim=": [Pattern("only PyTorch raises TypeError|^error class", "axis=", said="unexpected keyword argument 'axis'")],
    "memory that NumPy has seen may be resized where no array is left on it": [Pattern(_THEIRS, said="^Trying to resize storage that is not resizable")],
    "what is no tensor may be called not differentiable": [Pattern(_THEIRS, said="^mark_non_differentiable only accepts")],
    "out= also where PyTorch has none": [Pattern("error class TypeError not|only PyTorch raises TypeError", "trace")],
    "tensors of one shape in a sequence are stacked": [Pattern("only PyTorch raises (ValueError|TypeError)", "torch\\.(tensor|asarray|as_tensor)", said="^only (one element|integer) tensors")],
    "a batch of no examples gives an empty batch": [Pattern("only PyTorch raises IndexError", "vmap", said="^select\\(\\): index 0 out of range"), Pattern(_THEIRS, "vmap", said="^cannot reshape tensor of 0 elements")],
    "an example of one number is a tensor without dimensions, whose dimensions are 0 and -1": [Pattern("only PyTorch raises IndexError", "vmap", said="^Dimension (out of range|specified as)")],
    "derivatives of nothing are empty": [Pattern(_THEIRS, "hessian|jacobian|jac", said="^stack expects a non-empty")],
    "in-place forms that are recorded, or made of several ops, compute before they write": [Pattern(_THEIRS, said="^unsupported operation: some elements of the input tensor")],
    "numbers may be given by name where tensors may": [Pattern("only PyTorch raises TypeError|^error class TypeError not", said="received an invalid combination of arguments - got \\(other=Tensor, input=(bool|int|float)")],
    "type_as changes the dtype and keeps the layout": [Pattern(_THEIRS, "type_as", said="^to\\(options\\) doesn't support converting")],
    "sparse tensors are taken where PyTorch takes strided ones, or other sparse ones": [
        Pattern(_THEIRS, program="sparse", said="^(sparse_mask|norm_sparse|inconsistent tensor size|Sparse CSR tensors do not have strides|unsupported memory format|to_sparse_csr: Expected product)"),
    ],
    "statistics of every floating dtype": [Pattern(_THEIRS, said="^std_var_all: Unsupported dtype")],
    "which results show a part of another tensor's memory is each library's own": [
        Pattern("raises RuntimeError", "detach_", said="detach views in-place"),
        Pattern("^requires_grad", "requires_grad_", "affine_grid|func\\.vjp\\(torch\\.(real|positive|resolve_conj)|to_sparse[^\0]*movedim"),
        Pattern(_THEIRS, program="jacfwd|jacrev|hessian", said="^Output 0 of View is a view"),
        Pattern(_THEIRS, "squeeze_|\\.t_|transpose_", said="is a view and is being modified inplace"),
    ],
    "results of vmap may have a shape that depends on values": [Pattern(_THEIRS, "vmap", said="dynamic shape")],
    "a mask of uint8 is a mask": [Pattern(_THEIRS, said="^masked_fill_ only supports boolean masks"), Pattern("^warning  not UserWarning", said="masks of uint8")],
    "in place, the modulus of complex numbers is written as complex numbers": [Pattern(_THEIRS, "abs_\\(", said="^In-place abs")],
    "losses broadcast": [Pattern(f"{_THEIRS}|{_BOTH}", "soft_margin_loss")],
    "what is no tensor has no tangent": [Pattern("only PyTorch raises TypeError", "unpack_dual", said="^_unpack_dual\\(\\): argument 'dual'")],
    # ---- Facula refuses what PyTorch does
    "the tangent of a real tensor is real, and that of a result as wide as the result": [
        Pattern("only Facula raises RuntimeError|^error class", said="the tangent (of a real tensor|must have the primal's shape)"),
        Pattern("^dtype", "jvp|make_dual"),
        Pattern("^value", "jvp\\(torch\\.\\w+, \\(v\\d+, v\\d+\\)"),
    ],
    "at most one ellipsis, as in NumPy": [Pattern("only Facula raises IndexError", said="at most one ellipsis")],
    "methods of operators take their argument by name or not as Python's own do": [Pattern("only Facula raises TypeError|^error class RuntimeError not TypeError", "__i\\w+__\\(")],
    "operands of one dtype, as the operator's text says": [Pattern("only Facula raises RuntimeError", "solve_triangular|lerp|polar|heaviside|einsum", said="(same|one)( floating)? dtype|tensor's dtype")],
    "integers and truth values have no soft-max, product or random numbers of their own, where PyTorch's kernel is not reached": [
        Pattern("only Facula raises NotImplementedError", "softmax|cumsum|cumprod|geometric_|pow|normal\\(|randn_like"),
        Pattern("only Facula raises RuntimeError", "cum(sum|prod)_\\(", said="cannot be written into bool"),
        Pattern("only Facula raises RuntimeError", "gumbel_softmax", said="needs a floating dtype"),
    ],
    "complex numbers have no order, and no loss that compares them": [
        Pattern("only Facula raises NotImplementedError|^error class IndexError not", "cummin|cummax|binary_cross_entropy|adaptive", said="not implemented for dtype complex"),
        Pattern("only Facula raises RuntimeError", "\\] = ", said="a complex value does not fit"),
    ],
    "a result in out= has no history, so nothing that requires a gradient is written there": [
        Pattern("only Facula raises RuntimeError|^error class", "softmax\\(.*out=", said="out= has no derivative"),
    ],
    "a truth value is no size and no dimension": [Pattern("only Facula raises TypeError|^error class RuntimeError not TypeError", "(flip|squeeze|unsqueeze|tile|repeat)\\(", said="bool\\)|int, bool")],
    "a size is not negative, also where nothing lies in it": [Pattern("only Facula raises RuntimeError", "expand", said="a size is not negative")],
    "how much memory lies behind a tensor is each library's own": [Pattern("only Facula raises RuntimeError", "as_strided", said="reach outside of the storage")],
    "full() takes numbers that its dtype has, also for no or one element": [Pattern("only Facula raises RuntimeError", "torch\\.full\\(", said="the number must have a value in")],
    "sparse and strided tensors are not mixed silently": [Pattern("raises RuntimeError", said="SparseCsr|requires coalesced input|of different layouts")],
    "an index beyond the dimension is refused; PyTorch's take_along_dim takes the remainder": [Pattern("only Facula raises RuntimeError", "take_along_dim", said="gather: index out of range")],
    "what shows an inference tensor is one, and is not written outside of inference mode": [Pattern("only Facula raises RuntimeError", program="inference_mode", said="\\| \\w+: an inference tensor is not written")],
    "a dense factor of a sparse tensor has its shape or broadcasts to it": [Pattern("only Facula raises RuntimeError", program="sparse", said="a strided factor must broadcast to the sparse one")],
    "tensors that share memory with others do not grow": [Pattern("only Facula raises RuntimeError", said="cannot follow it when it grows")],
    "a number's quotient, ldexp, kron, cross_entropy, polar, ndtr, singular and eigenvalues keep their input or result and no copy of it": [
        Pattern("backward only ours: only Facula raises RuntimeError", program="= [-\\w.('\")]+ / v|div\\([-\\d.]|__r\\w*div", said="backward of div "),
        Pattern("^gradient value", program="(?s)ndtr.*\\.data = "),
        Pattern("backward only ours: only Facula raises RuntimeError", program="hardtanh|relu6", said="backward of hardtanh "),
        Pattern("backward only ours: only Facula raises RuntimeError", program="\\.data = ", said="modified by an inplace operation"),
        Pattern("backward only ours: only Facula raises RuntimeError", said="backward of (ldexp|kron|row_norm|cross_entropy|_?polar|ndtr|_?linalg_\\w+|svdvals|eigvals\\w*)"),
        Pattern("backward only ours: only Facula raises RuntimeError", program="ldexp|kron|polar", said="backward of (mul|pow) "),
    ],
    "the gradient of the logarithm of the determinant of a singular matrix is an error, not infinite": [Pattern("backward only ours", program="det", said="singular"), Pattern("backward only ours", program="lstsq", said="finite elements")],
    # ---- both refuse, and name it differently
    "NotImplementedError is a RuntimeError: what catches PyTorch's catches this one": [Pattern("^error class RuntimeError not NotImplementedError")],
    "two things are wrong, and each library names one of them": [
        Pattern("^error class IndexError not", said="^(Dimension (out of range|specified as)|too many indices|select\\(\\): index).*\\| (?!.*dimension out of range)"),
        Pattern("^error class RuntimeError not (IndexError|TypeError)", said="^(value cannot be converted|Unsupported dtype|unsupported operation: some elements|Trying to set a forward gradient|Index put requires|result type)"),
        Pattern(
            "^error class RuntimeError not (IndexError|TypeError|ValueError)",
            said="^(logsumexp\\(\\): Expected floating|ihfft expects a real|Output 0 of BackwardHookFunction|Expected the dtype for input and out|\\w+\\(\\): functions with out=|rfft expects a real|index_copy_\\(\\): Source|setStorage: sizes|Batching rule not implemented)",
        ),
        Pattern("^error class NotImplementedError not IndexError", said='^Could not run|^"\\w+" not implemented for'),
        Pattern("^error class IndexError not (NotImplementedError|RuntimeError)", said="Expected reduction dim .*to have non-zero size|^index out of range in self"),
        Pattern("^error class RuntimeError not AssertionError", said="allow_mutation_on_saved_tensors"),
        Pattern("^error class (ValueError|TypeError|AttributeError) not", said="^(Thing passed to transform|can't (assign a NoneType|convert Sparse)|only integer tensors of a single|'\\w+' object has no attribute|\\w+\\(\\): argument 'input')"),
        Pattern("^error class NotImplementedError not RuntimeError", said='^("\\w+" not implemented for|clamp is not supported|Could not run|Cannot access|Trying to use forward AD|the derivative for).*\\| .*(cannot be written into|(one|same) dtype|automatic differentiation|not implemented for dtype|all tensors or none are COO|one floating dtype|does not fit in place|has no mean|divisor other than zero|floating-point|sparse|memory|dtype bool|is not differentiable|must broadcast|modified by an inplace|inference tensor)'),
    ],
    "an argument that is no tensor is refused by its type, before something is asked of it": [Pattern("^error class AttributeError not TypeError", said="has no attribute")],
    # ---- warnings
    "a cast that drops imaginary parts warns; a comparison with complex numbers drops none": [Pattern("^warning (UserWarning)? ?not", said="(discards the imaginary part|drops their imaginary parts)")],
    "a write into expanded memory says so": [Pattern("^warning  not UserWarning", said="in expanded tensors")],
    "Facula deprecates nothing of PyTorch's": [Pattern("^warning \\w+ not", said="deprecated|is now deprecated|will be removed|jit.script")],
    "a fact about PyTorch: how its tracing, its kernels and its sparse tensors are made, and a default that was another": [
        Pattern("^warning UserWarning not", "asarray", said="unspecified requires_grad"),
        Pattern("^warning UserWarning not", said="Sparse (CSR|CSC|BSR|BSC) tensor support|Sparse invariant checks"),
        Pattern("^warning UserWarning not", "linearize", said="get_attr Node"),
        Pattern("^warning UserWarning not", said="padding='same' with even kernel|performance drop|lower the performance|ComplexHalf support|fused implementation|create_graph=True will create a reference cycle"),
    ],
    # ---- values that no two libraries share
    "directions of singular and eigenvectors and the order of eigenvalues are free": [Pattern("^(gradient )?value", "\\b(svd|eigh|qr|eigvals)\\(")],
    "a singular matrix, or one that nearly is": [
        Pattern("^(gradient )?value", "\\b(pinv|pinverse|inv|inv_ex|inverse|cond|matrix_power|det|logdet|slogdet)\\(|%|//", "\\b(pinv|pinverse|inv|inv_ex|inverse|cond|matrix_power|det|logdet|slogdet)\\(", only="extreme"),
        Pattern("^value", "\\b(logdet|slogdet)\\("),
        Pattern("^gradient value", program="\\b(det|logdet|slogdet|inv|inverse|pinv)\\(", only="nan"),
        Pattern("^value", "lstsq\\("),
    ],
    "the source overlaps what is written, in an order that nobody promises": [
        # one is a view of the other: v2 = v1.split(1)[0]; v1.add_(v2)
        Pattern("^value", program=rf"(?s)(v\d+) = (v\d+)({_VIEW}).*\n((\2\.\w+_\(.*\1\b)|(\1\.\w+_\(.*\2\b))[^\n]*$"),
        Pattern("^value", "(v\\d+)\\.masked_scatter_\\(\\1 > 0, \\1\\)"),
    ],
    "what is refused halfway has written some elements": [
        Pattern("^value", "\\] = ", said="index out of range|is out of bounds"),
        Pattern("^value", said="^(unsupported operation: some elements|Number of elements of source|index -?\\d+ is out of bounds|Inplace update to inference tensor outside|ZeroDivisionError)"),
    ],
    "PyTorch overwrites or resizes an out= that is an argument before it reads it": [
        Pattern("^(value|shape)", "torch\\.\\w+\\(.*\\b(v\\d+)\\b.*out=\\1\\)"),
        Pattern("^(value|shape)", "torch\\.\\w+\\(.*out=v\\d+\\)", only="zero"),
        Pattern("^value", "torch\\.(amax|amin)\\(.*out=v\\d+\\)", only="extreme"),
        Pattern("^value", "torch\\.prod\\(.*out=v\\d+\\)", "inplace=True|\\[|view|detach"),  # the argument is known by another name
        Pattern("only PyTorch raises RuntimeError", "torch\\.\\w+\\(.*\\b(v\\d+)\\b.*out=\\1\\)", said="^The size of tensor a"),
        Pattern("only PyTorch raises IndexError", "out=", said="^Dimension out of range.*out= had shape"),
    ],
    "NaN has no sign and no payload that computing keeps": [Pattern("^value", "signbit|copysign"), Pattern("^value", "(sin|cos|tan|exp|sqrt)h?\\b", said="complex", only="nan"), Pattern("^value", said="\\[.*(-4194300|2143290000|2147480000|2146960000|-524288)\\.0")],
    "what is refused counts as a write, since some elements may have been written": [
        Pattern("backward only ours: only Facula raises RuntimeError", program="\\.(scatter|scatter_add|index_\\w+|put|masked_scatter)_\\(", said="modified by an inplace operation"),
    ],
    "NaN has no place in an order": [Pattern("^value", "unique\\(", only="nan")],
    "at a bound, and where numbers are too large for their logarithms to differ, the tangent is that of the backward pass; PyTorch's two differ": [
        Pattern("^value", "(?s)(dual_level|jvp).*(clamp|fmax|fmin|maximum|minimum)"),
        Pattern("^value", "(?s)dual_level.*logsumexp", "1e30|inf"),
        Pattern("^value", "(?s)dual_level|jvp|hessian|grid_sample", only="nan"),
        Pattern("^value", "cross_entropy", "1e30"),
    ],
    "of a number too large for an integer dtype, rounding has decided the lowest bits": [Pattern("^value", "\\.(to|type_as)\\((torch\\.)?u?int|\\.(int|long|short|byte|char)\\(")],
    "which of equal elements an index names is free": [Pattern("^value", "(kthvalue|nanmedian|median|mode|topk|sort)\\(", said="named")],
    "a view of a leaf that was made under no_grad() has no history, nor has what a transform makes of it; PyTorch's leads nowhere": [
        Pattern("^requires_grad", "torch\\.func\\.(jvp|vjp|grad)", program="(?s)no_grad\\(\\):\n    (v\\d+) = v\\d+\\.view\\(.*torch\\.func\\.\\w+\\([^\n]*\\1\\b"),
    ],
    "a derivative that does not depend on its argument has no history": [Pattern("^requires_grad", "hessian|jacrev|jacfwd|jacobian|func\\.grad\\(lambda t: t\\.prod"), Pattern("^requires_grad", "autograd\\.grad\\(.*create_graph=True")],
    "logical_not_ and its like leave the old history in PyTorch, so that a gradient flows through a truth value": [
        Pattern("^gradient value", program="logical_(not|and|or|xor)_\\("),
        Pattern("^gradient value", program="torch\\.(eq|lt|logical_not|logical_and)\\(.*out="),
        Pattern("^value", "logical_(and|or|xor|not)_"),
        Pattern("^value", "autograd\\.grad", "torch\\.(eq|lt|logical_not|logical_and)\\(.*out="),
        Pattern("^gradient (missing|only ours)", "both\\(", program="(lt|le|gt|ge|eq|ne|logical_\\w+)_\\("),
    ],
    "a truth value that is written over numbers has no history": [
        Pattern("^requires_grad", "(eq|ne|lt|le|gt|ge|fill)_\\("),
        Pattern("^requires_grad", "\\] =", said=": (u?int\\d+|bool)\\["),
    ],
    "PyTorch's acosh gives a gradient where the value is NaN": [Pattern("^(gradient )?value", program="acosh", only="nan")],
    "an extremum that is NaN hands its gradient to the NaN; PyTorch's is 0 / 0": [Pattern("^gradient value", program="amax|amin|aminmax|\\.(max|min)\\(|median", only="nan")],
    "the gradient of the tangent of a normalization: PyTorch's is not the derivative": [Pattern("^gradient value", program="(?s)dual_level.*(layer_norm|batch_norm)")],
    "beside a pole, the last digits of the argument decide": [Pattern("^(gradient )?value", "\\b(digamma|psi|gammaln|lgamma|polygamma|mvlgamma|zeta|logit|reciprocal|log\\d*p?_?|erfinv|rsqrt|tan|asin|acos|acosh|atanh|addcdiv|entr|sqrt)_?\\b", only="extreme"), Pattern("^value", "binary_cross_entropy\\(.*sigmoid"), Pattern("^value", "angle|sqrt|atan2|pow", "_window|fft"), Pattern("^value", program="linalg\\.cross\\(fit\\((v\\d+), 2, 3\\), fit\\(\\1"), Pattern("^value", "div|/", "lgamma|digamma", only="extreme"), Pattern("^value", "isin\\(", "i0|i1|exp|log|gamma|erf|sin|tan"),
        Pattern("^value", "acosh|asin|acos|atanh", "stft|fft"),
        Pattern("^value", "digamma|lgamma|reciprocal|1 /", "(batch|instance|group|layer)_norm"),  # of equal numbers: zero, and what is nearly zero
        Pattern("^value", "\\btan_?\\(", "conv|linear|norm|linalg|matmul|@"),
        Pattern("^value", "(mse|l1|huber)_loss\\(.*weight=", only="extreme"),  # weights whose sum is nearly zero
    ],
    "at a jump of a function, the last digits of the argument decide": [
        Pattern("^value", "ceil|floor|trunc|frac|round|sign|sgn|//|%|remainder|fmod|heaviside|to\\(torch.u?int", _ROUNDED, only="step"),
        Pattern("^kind", " in v", _ROUNDED),
        Pattern("^(value|shape)", "nonzero|logical_(and|or|xor|not)|torch\\.(all|any)\\(", "_window|softmax|norm\\("),  # what is nearly zero, or zero
        Pattern("^value", "view\\(torch\\.u?int", _ROUNDED),  # the last digits as bits
        Pattern("^value", "heaviside", "ndtr|exp|erfc|sigmoid|softm|norm"),
    ],
    "in place, a sparse tensor gets a new value, which another tensor on its old parts does not see": [
        Pattern("^value", program="(?s)(v\\d+) = [^\\n]*to_sparse.*= \\1\\.(unsqueeze|squeeze|transpose|t|detach|view)\\(.*\\1\\.\\w+_\\([^\\n]*$"),
    ],
    "of equal numbers a normalization leaves the zero that it is; PyTorch's rounding is enlarged": [Pattern("^(gradient )?(value|shape)", program="_norm\\(|Norm", only="zero")],
    "a loss of tensors of several dtypes has their common one": [Pattern("^dtype", "soft_margin_loss|binary_cross_entropy")],
    "a sparse product and a summand of several dtypes have their common one": [Pattern("^dtype", "sparse\\.addmm")],
    "cdist with p=0 counts NaN as different; PyTorch's answer depends on the place": [Pattern("^value", "cdist\\(.*, 0\\)", only="nan")],
    "einsum of integers keeps their common dtype where PyTorch's depends on the order of sums": [Pattern("^dtype", "einsum")],
    "NaN among the scores of a loss stays visible": [Pattern("^value", "(margin|triplet)\\w*_loss", only="nan")],
    "a real infinity added to a complex number leaves the imaginary part as it is": [Pattern("^value", "inf", only="nan"), Pattern("^value", "= v\\d+ [-+*]|add|sub", said="complex", only="nan")],
    "the gradient of polar for a negative length, of silu for complex numbers, and of the norm that renorm divides by: PyTorch's are not the derivatives": [
        Pattern("^gradient value", program="polar|renorm"),
        Pattern("^gradient value", program="(?s)silu.*complex|complex.*silu"),
    ],
    "the gradient of atan2 with an integer, of the tangent of cumprod at zero: PyTorch computes integers that overflow, and 0 / 0": [
        Pattern("^gradient value", program="(?s)(u?int\\d|long|short|\\.int).*(arc|a)tan2|(arc|a)tan2.*u?int\\d"),
        Pattern("^gradient value", program="(?s)dual_level.*cumprod", only="nan"),
    ],
    "PyTorch's derivative of ldexp computes powers of integers, that of var over an empty list of dimensions divides by zero": [
        Pattern("^gradient value", program="ldexp"),
        Pattern("^value", "(?s)dual_level.*ldexp"),
        Pattern("^gradient value", program="(std|var|var_mean|std_mean)\\((v\\d+, )?(\\[\\]|\\(\\))"),
    ],
    "after a pass that failed, which gradients arrived is nobody's promise": [
        Pattern("^gradient (only ours|missing|value)", "backward$|both\\(|\\.backward\\(", said="^.{12,}\\| .{12,}"),
        Pattern("^gradient (only ours|missing|value)", "both\\(", "backward\\("),
    ],
    "in inference mode, detach_ and set_ change what requires a gradient": [Pattern("^(requires_grad|is_leaf)", "inference_mode\\(\\):\n +v\\d+\\.(detach_|set_\\()")],
    "a Function's list of results is a tuple, and what it gives back as it is keeps its flags": [Pattern("^kind", "Double\\.apply", said="\\[list"), Pattern("^requires_grad", "Double\\.apply")],
    "nothing chosen of a tensor without dimensions is empty, differences of nothing are computed, and a view of what requires a gradient later is no leaf only where it was written": [
        Pattern("^shape", "topk\\(.*\\b0\\)|topk\\(0\\)"),
        Pattern("^is_leaf", "diff\\("),
        Pattern("^is_leaf", "requires_grad(_| = True)"),
    ],
    "zeros(out=) and its like end the history of what they overwrite": [Pattern("^requires_grad", "jvp|func\\.grad|linearize", "torch\\.(zeros|ones|eye)\\(.*out=")],
    "where infinities meet, the order of sums and products decides": [
        Pattern("^(gradient )?value", "conv|bilinear|linear|solve|gelu|scaled_dot|matmul|@|einsum|\\b[bm]m\\b|sum|mean|backward", only="extreme"),
        Pattern("^(gradient )?value", program="\\binf\\b|1e30", only="extreme")],
    "PyTorch's tangents require a gradient by the way they are computed": [Pattern("^requires_grad", "unpack_dual")],
    "PyTorch's all() writes nothing into an out= of uint8": [Pattern("^value", "torch\\.(all|any)\\(.*out=")],
    "the data of a sparse tensor are its own parts": [Pattern("^value", "data", program="sparse")],
    "a view of a tensor that was detached in place keeps its history": [Pattern("^gradient", program="detach_\\(")],
    "the third argument of __ipow__ is the modulus, which floats have not": [Pattern("^value", "__ipow__")],
    "a number is kept in double precision beside narrow floats, where PyTorch's overflows": [Pattern("^value", "remainder|fmod|floor_divide|%|//|1e30", only="extreme"), Pattern("^value", "1e30 *(%|//)|(remainder|fmod|floor_divide)_?\\(.*1e30|(%|//) *1e30")],
    # ---- layouts of memory
    "strides of results of transforms, products and batches, and of what is computed from them, are nobody's promise": [
        Pattern("^(stride|lazy)", program="fft|vmap|hessian|jacrev|jacfwd|jvp|dual_level|ldexp|matrix_exp|renorm|unique|stft|linalg|sparse|einsum|inv|solve|attention|LSTM|GRU|RNN"),
    ],
}
