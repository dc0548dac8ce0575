"""Differences from PyTorch that are on purpose, each with its reason; `differences.py` applies the table.

A row accepts a difference by its kind, by the statement at which it is seen, and by what PyTorch or Facula said of it, whichever
says most exactly what is meant. What a user would not notice (another number, gradient, dtype or shape without an exception) is
here only where no right answer exists or PyTorch's is worse.
"""

from __future__ import annotations

from typing import NamedTuple


class Accepted(NamedTuple):
    reason: str
    kind: str  # regular expressions: of the kind of difference,
    statement: str = ""  # of the statement at which it is seen,
    program: str = ""  # of the program up to there,
    said: str = ""  # and of the texts of both exceptions, "PyTorch's | Facula's", and the two values


ACCEPTED: list[Accepted] = [
    # ---- exceptions
    Accepted("NotImplementedError is a RuntimeError: what catches PyTorch's catches this one", "^error class RuntimeError not NotImplementedError"),
    Accepted("Facula computes what PyTorch has no kernel for", "only PyTorch raises (NotImplementedError|RuntimeError)", said="^\"\\w+\" not implemented for|^Unsupported (input type|dtype)|does not support complex (dtypes|input)|^Could not run|MKL FFT error|INTERNAL ASSERT"),
    Accepted("Facula computes with operands of different dtypes in their common dtype", "only PyTorch raises RuntimeError", said="^(expected scalar type|expected m1 and m2|Expected .*(same|scalar) (d?type|types)|.*must (have|be) the same dtype|.*[Ee]xpected .* to have the same dtype|Index put requires the source and destination dtypes match|result type .* can't be cast)"),
    Accepted("Facula differentiates what PyTorch does not", "only PyTorch raises (RuntimeError|NotImplementedError)", said="does not support automatic differentiation|derivative for aten::\\w+ is not implemented|is not differentiable with respect to|the derivative for|Trying to use forward AD with|implicitly created only for real"),
    Accepted("a result in an integer dtype has no gradient; PyTorch refuses to compute it", "only PyTorch raises RuntimeError", said="^Autograd not support dtype"),
    Accepted("a graph of which nothing was saved can be walked again", "only PyTorch raises RuntimeError", said="^Trying to backward through the graph a second time"),
    Accepted("Facula did not save what was written to, or saved a copy", "backward only theirs", said="^one of the variables needed for gradient computation has been modified"),
    Accepted("slices may run backwards", "PyTorch raises ValueError|^error class ValueError", said="step must be greater than zero"),
    Accepted("a tensor without dimensions repeats like a vector of one element", "only PyTorch raises IndexError", "repeat_interleave"),
    Accepted("a bool operand counts as 0 and 1 where the other is a number", "only PyTorch raises RuntimeError", said="^Subtraction, the `-` operator|^Boolean alpha only supported"),
    Accepted("float_power_ writes back into the tensor's dtype", "only PyTorch raises RuntimeError", "float_power_"),
    Accepted("arguments may also be named as in the schema of operators (self=)", "(only PyTorch raises|error class) TypeError", "self="),
    Accepted("sorted= has no effect, so that its type does not matter", "only PyTorch raises TypeError", "unique"),
    Accepted("a tangent has the dtype of its primal", "only Facula raises RuntimeError", said="the tangent must have the primal's dtype"),
    Accepted("numbers too large for a dtype are infinite, as in tensor()", "only PyTorch raises RuntimeError", said="cannot be converted to type .* without overflow"),
    Accepted("two things are wrong, and each library names one of them", "^error class IndexError not", said="^(Dimension (out of range|specified as)|select\\(\\): index).*\\| (?!.*dimension out of range)"),
    Accepted("two things are wrong, and each library names one of them", "^error class RuntimeError not (IndexError|TypeError)", said="^(value cannot be converted|Unsupported dtype|unsupported operation: some elements|Trying to set a forward gradient|Index put requires|result type)"),
    Accepted("two things are wrong, and each library names one of them", "^error class NotImplementedError not RuntimeError", said="^(\"\\w+\" not implemented for|clamp is not supported|Could not run|Trying to use forward AD).*\\| .*(cannot be written into|(one|same) dtype|automatic differentiation|not implemented for dtype|divisor other than zero|floating-point|sparse|memory|dtype bool)"),
    Accepted("at most one ellipsis, as in NumPy", "only Facula raises IndexError", said="at most one ellipsis"),
    Accepted("PyTorch's own backward pass fails on dtypes that its forward pass mixed", "backward only theirs", said="^(Found dtype|Expected isFloatingType|expected scalar type|Trying to use a saved tensor that has been detached in-place)"),
    Accepted("out= also where PyTorch has none", "error class TypeError not|only PyTorch raises TypeError", "trace"),
    Accepted("tensors of one shape in a sequence are stacked", "only PyTorch raises (ValueError|TypeError)", "torch\\.(tensor|asarray|as_tensor)", said="^only (one element|integer) tensors"),
    Accepted("methods of operators take their argument by name or not as Python's own do", "only Facula raises TypeError", "__i\\w+__\\("),
    Accepted("a batch of no examples gives an empty batch", "only PyTorch raises IndexError", "vmap", said="^select\\(\\): index 0 out of range"),
    Accepted("operands of one dtype, as the operator's text says", "only Facula raises RuntimeError", "solve_triangular|lerp|polar|heaviside|\\[False\\]", said="(same|one)( floating)? dtype|tensor's dtype"),
    Accepted("integers and truth values have no soft-max, product or random numbers of their own, where PyTorch's kernel is not reached", "only Facula raises NotImplementedError", "softmax|cumsum|cumprod|geometric_|pow"),
    Accepted("a mask of uint8 is a mask", "only PyTorch raises RuntimeError", said="^masked_fill_ only supports boolean masks"),
    Accepted("in place, the modulus of complex numbers is written as complex numbers", "only PyTorch raises RuntimeError", "abs_\\(", said="^In-place abs"),
    Accepted("losses broadcast", "only PyTorch raises RuntimeError|^error class", "soft_margin_loss"),
    Accepted("results of vmap may have a shape that depends on values", "only PyTorch raises RuntimeError", "vmap", said="dynamic shape"),
    Accepted("PyTorch's implementation gives no answer: its view, gradient or hook cannot be used any more", "^kind|^only PyTorch raises RuntimeError|^backward only theirs", said="shown: RuntimeError|^Output 0 of (BackwardHookFunction|AsStrided)|^Function \\w+ returned an invalid gradient|^output with shape .* doesn't match the broadcast shape|^unsupported operation: more than one element"),
    Accepted("an argument that is no tensor is refused by its type, before something is asked of it", "^error class AttributeError not TypeError", said="has no attribute"),
    Accepted("sparse and strided tensors are not mixed silently", "raises RuntimeError", said="SparseCsr|requires coalesced input|of different layouts"),
    # ---- warnings
    Accepted("a default that never was another one here", "^warning UserWarning not", "asarray", said="unspecified requires_grad"),
    Accepted("Facula deprecates nothing of PyTorch's", "^warning UserWarning not", said="deprecated|is now deprecated|will be removed"),
    Accepted("sparse tensors are no experiment, and their indices are checked", "^warning UserWarning not", said="Sparse (CSR|CSC|BSR|BSC) tensor support|Sparse invariant checks"),
    Accepted("PyTorch's tracing warns of its own graph", "^warning UserWarning not", "linearize", said="get_attr Node"),
    Accepted("a fact about PyTorch's kernels", "^warning UserWarning not", said="performance drop|ComplexHalf support|fused implementation|create_graph=True will create a reference cycle"),
    # ---- values that no two libraries share
    Accepted("directions of singular and eigenvectors are free", "^value|^gradient value", "svd|eigh|qr|lstsq|pinv"),
    Accepted("the inverse of a nearly singular matrix", "^value", "pinv|inv\\(|cond|matrix_power|det"),
    Accepted("the source overlaps what is written, in an order that nobody promises", "^value", "masked_scatter_|put_"),
    Accepted("NaN has no sign that computing keeps", "^value", "signbit|copysign|atan2"),
    Accepted("a derivative that PyTorch has not", "^(requires_grad|is_leaf|value)", "bessel_|scaled_modified|vander"),
    Accepted("a derivative that does not depend on its argument has no history", "^requires_grad", "hessian|jacrev|jacfwd|jacobian"),
    Accepted("logical_not_ and its like leave the old history in PyTorch, so that a gradient flows through a truth value", "^gradient value", program="logical_(not|and|or|xor)_\\("),
    Accepted("PyTorch's acosh gives a gradient where the value is NaN", "^(gradient )?value", program="acosh"),
    Accepted("the gradient of the tangent of a normalisation: PyTorch's is not the derivative", "^gradient value", program="(?s)dual_level.*(layer_norm|batch_norm)"),
    Accepted("beside a pole, or of numbers that cancelled before, the last digits are nobody's", "^(gradient )?value", "digamma|lgamma|BatchNorm|GroupNorm|batch_norm|zeta|polygamma"),
    Accepted("beside a pole, or of numbers that cancelled before, the last digits are nobody's", "^(gradient )?value", program="Norm|_norm|digamma"),
    Accepted("ldexp, kron, cross_entropy, polar, singular and eigenvalues keep their input and no copy of it", "backward only ours: only Facula raises RuntimeError", program="ldexp|kron|cross_entropy|polar|svd|eig|cond|matrix_norm|nuc"),
    Accepted("einsum of integers keeps their common dtype where PyTorch's depends on the order of sums", "^dtype", "einsum"),
    Accepted("NaN among the scores of a margin loss stays visible", "^value", "margin_loss"),
    Accepted("a real infinity added to a complex number leaves the imaginary part as it is", "^value", "inf"),
    Accepted("the gradient of polar for a negative length, of silu for complex numbers, and of the norm that renorm divides by: PyTorch's are not the derivatives", "^gradient value", program="(?s)polar|silu.*complex|complex.*silu|renorm"),
    Accepted("the gradient of atan2 with an integer, of the tangent of cumprod at zero: PyTorch computes integers that overflow, and 0 / 0", "^gradient value", program="atan2|cumprod"),
    Accepted("the data of a sparse tensor are its own parts", "^value", "data", program="sparse"),
    Accepted("a view of a tensor that was detached in place keeps its history", "^gradient", program="detach_\\("),
    Accepted("PyTorch writes into an inference tensor before it refuses to", "^value", said="Inplace update to inference tensor"),
    Accepted("PyTorch writes before it refuses a memory overlap", "^value", said="^unsupported operation: some elements"),
    Accepted("a tangent has the dtype of its primal", "^dtype", "jvp"),
    Accepted("the gradient of the logarithm of the determinant of a singular matrix is an error, not infinite", "backward only ours", said="singular", program="det"),
    Accepted("a truth value that is written over numbers has no history", "^requires_grad", "(eq|ne|lt|le|gt|ge)_\\(|> 0\\] ="),
    Accepted("beside a pole, or of numbers that cancelled before, the last digits are nobody's", "^value", "logit|reciprocal|log_?\\("),
    Accepted("a tangent has the dtype of its primal", "^value", "jvp\\(torch.mul"),
    Accepted("logical operators in place have no tangent", "^value", "logical_(and|or|xor|not)_"),
    Accepted("the third argument of __ipow__ is the modulus, which floats have not", "^value", "__ipow__"),
    Accepted("no derivative: PyTorch's result raises when backward meets it, Facula's does not require a gradient", "^requires_grad", "zeta|heaviside|unique|histc"),
    Accepted("a number is kept in double precision beside narrow floats, where PyTorch's overflows", "^value", "remainder|fmod|floor_divide|1e30"),
    # ---- layouts of memory
    Accepted("strides of results of transforms and of batches are nobody's promise", "^(stride|lazy)", "fft|vmap|hessian|jacrev|jacfwd|jvp|matrix_exp|renorm|unique|stft|linalg"),
]
