"""List what Facula does otherwise than PyTorch on purpose: `python -m codegen.supported` puts it into docs/supported.md, and
tests/test_supported.py runs the programs."""

#: (a program that PyTorch refuses and Facula runs, why)
ACCEPTED = [
    ("torch.tensor([True, False]).clamp(False, True)",
     "tensors are bounds of a bool tensor in both, so numbers are as well"),
    ("F.conv3d(torch.ones(1, 1, 2, 2, 2, dtype=torch.int8), torch.ones(1, 1, 1, 1, 1, dtype=torch.int8), dilation=2)",
     "integers are taken without dilation in both; uint8, int16 and int32 as well"),
    ("F.max_unpool3d(torch.ones(1, 1, 1, 1, 1, dtype=torch.int64), torch.zeros(1, 1, 1, 1, 1, dtype=torch.int64), 2)",
     "elements are only moved, so every dtype of max_pool3d is taken"),
    ("F.binary_cross_entropy_with_logits(torch.tensor([1, 0]), torch.tensor([1, 0]))",
     "integers are numbers of the default dtype, as elsewhere"),
    ("torch.sparse.mm(torch.eye(2, dtype=torch.int32).to_sparse_csr(), torch.ones(2, 2, dtype=torch.int32), 'amax')",
     "the other reductions take integers in both"),
    ("torch.special.shifted_chebyshev_polynomial_v(torch.ones(2, dtype=torch.bfloat16), 1)",
     "the polynomials are computed in float32 where the dtype is narrower"),
    ("torch.unfold_copy(torch.ones(4, dtype=torch.complex32, requires_grad=True), 0, 2, 1).real.float().sum().backward()",
     "the gradient of what only moves elements has every dtype"),
    ("torch.arange(9)[1:9:-1]",
     "a step below zero counts backwards, as in NumPy"),
    ("torch.tensor([1 + 2j]).conj().imag.numpy()",
     "the imaginary part of a conjugated tensor is made at once: there is no lazily negated tensor"),
    ("torch.ones(2, dtype=torch.complex64).float_power_(2)",
     "the result is computed in double and rounded when it is written, as for every other in-place op"),
    ("F.adaptive_avg_pool2d(torch.ones(1, 1, 3, 3, requires_grad=True), 0).sum().backward()",
     "the gradient of an empty result is zero"),
    ("a = torch.ones(2, requires_grad=True).clone(); b = a.sin(); a.detach_(); b.sum().backward()",
     "the saved value is unchanged, and so is its derivative"),
    ("with torch.inference_mode(): x = torch.ones(1, 2)\nx.transpose_(0, 1)",
     "no element is written that a graph could have saved"),
    ("a = torch.ones(2, requires_grad=True).clone()\nwith torch.no_grad(): v = a.view(2)\na.add_(1); v.grad_fn",
     "the history of a view follows from that of its base, whatever was recorded when it was made"),
    ("torch.func.grad(lambda x: x.requires_grad_().sin().sum())(torch.ones(2))",
     "transforms compute with ordinary tensors of their own, so there is nothing that requires_grad_ could disturb"),
    ("torch.func.grad(lambda x: (x * c.copy_(x)).sum())(torch.ones(2))",
     "a captured tensor is an ordinary one, which may be written"),
    ("torch.func.grad(lambda x: torch.autograd.functional.jacobian(lambda y: y.sin().sum(), x).sum())(torch.ones(2))",
     "autograd.functional computes inside of transforms as outside of them"),
    ("with torch.autograd.graph.save_on_cpu(): torch.func.grad(lambda x: x.sin().sum())(torch.ones(2))",
     "hooks of saved tensors are called inside of transforms as outside of them"),
    ("torch.func.grad(Returned.apply)(torch.tensor(2.0))",
     "a Function may return an input as it is and save it, inside of transforms as outside of them"),
    ("torch.func.jvp(Older.apply, (torch.ones(2),), (torch.ones(2),))",
     "a Function without jvp is differentiated by the ops of its forward"),
    ("v = Viewed.apply(torch.ones(2)); v += torch.ones(1, requires_grad=True)",
     "a view that a Function returns is a view like others: a write to it is recorded at its base"),
    ("torch.func.jacfwd(Older.apply)(torch.ones(2))",
     "jacfwd differentiates the ops of forward, for which setup_context is not needed"),
]  # fmt: skip

#: (program, what it gives here, what PyTorch gives, why)
GIVES = [
    ("F.embedding_bag(torch.tensor([0, 1]), w, torch.tensor([0, 1]), include_last_offset=True, padding_idx=2).shape, "
     "F.embedding_bag(torch.tensor([0, 1]), w, torch.tensor([0, 1]), include_last_offset=True, padding_idx=2).sum().item()",
     "(torch.Size([1, 2]), 1.0)",
     "the sum of both rows",
     "the last offset ends the last bag; PyTorch follows it without padding_idx only"),
    ("torch.unique(torch.tensor([nan, 0.0, nan]), dim=0)", "tensor([0., nan, nan])", "tensor([nan, 0., nan])",
     "NaNs come last, as where no dim is given, and as sort has them"),
    ("(torch.tensor(1 + 2j) == numpy.complex64(1 + 2j)).item()", "True", "False",
     "PyTorch drops the imaginary part of NumPy's number, with a warning"),
    ("gradient_through_turned_parts().real.tolist()", "[[0.0, 4.0], [2.0, 6.0]]", "its transpose",
     "the gradient of a view that was turned in place lies as the view does; PyTorch's own test calls its result a bug"),
]  # fmt: skip

#: What the programs use.
SETTING = '''
import numpy
import torch
F = torch.nn.functional
nan = float("nan")
c = torch.ones(2)
w = torch.tensor([[0.0, 1.0], [5.0, 5.0], [7.0, 7.0]])


class Passes(torch.autograd.Function):
    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Returned(Passes):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])


class Viewed(Passes):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)


class Older(Passes):
    @staticmethod
    def forward(ctx, x):
        return x.sin()


def gradient_through_turned_parts():
    z = torch.zeros(2, 2, dtype=torch.complex64, requires_grad=True)
    parts = torch.view_as_real(z.clone())
    parts.transpose_(0, 1)
    parts += 1
    parts.backward(torch.arange(8.0).view(2, 2, 2))
    return z.grad
'''
