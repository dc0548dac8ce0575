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
    ("copy.deepcopy(Plain(3))",
     "a subclass without methods of its own is copied like a tensor"),
    ("torch.jit.trace(lambda x: [x, 1], (c,)); torch.jit.script(unscriptable)(c)",
     "traced and scripted programs run as Python does, with its types"),
    ("torch.jit.trace(turned, torch.ones(3, 4), check_inputs=[torch.ones(4, 4)])",
     "a program is recorded for each shape that comes, so that paths that depend on shapes are right"),
    ("x = torch.arange(6.0); torch.cumsum(x[:5], 0, out=x[1:])",
     "where an input overlaps the out= of an op that is not elementwise, the result is computed before it is written"),
    ("with torch.inference_mode(): v = base.view(-1)\nbase.add_(1); v.grad_fn",
     "the history of a view follows from that of its base, as of a view made under no_grad()"),
    ("with torch.autograd.forward_ad.dual_level(): torch.igamma(c, torch.autograd.forward_ad.make_dual(c, c))",
     "tangents are derived when they are asked for; igamma, zeta and others have a derivative by one argument, and asking for "
     "that by the other raises NotImplementedError"),
    ("x = torch.ones(1, requires_grad=True); torch.utils.checkpoint.checkpoint(lambda y: Twice.apply(y * y), x, "
     "use_reentrant=False).backward()",
     "saved values may be read several times in one pass, under checkpoint() as without it"),
    ("x = torch.ones(2, requires_grad=True); y = x.clone()\nwith torch.no_grad(): x.set_(torch.zeros(2))\n"
     "torch.autograd.grad(y.sum(), x)",
     "a leaf keeps its place in the graphs that were recorded before its memory was exchanged"),
    ("n = torch.nested.nested_tensor([c, c], requires_grad=True); a = n.clone(); b = a.sum(-1, keepdim=True); a.add_(a)\n"
     "b.backward(torch.nested.nested_tensor([c[:1], c[:1]]))",
     "a sum needs no value of its input, nested or not"),
    ("x = torch.ones(2); x.numpy(); x.resize_(9)",
     "memory moves when nobody else holds it: the array is gone"),
    ("F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]), weight=torch.ones(3, dtype=torch.float64))",
     "weights of classes are numbers, which get the dtype of the scores"),
    ("n = torch.nested.nested_tensor([torch.ones(2, 4)]); torch.nn.MultiheadAttention(4, 2, batch_first=True)(n, n, n)",
     "nested tensors are taken in training as well, and where weights require gradients"),
    ("torch.load(written([c]), pickle_module=json, weights_only=False)",
     "files are read by Facula's own reader, which runs no code of the file: the module is not used"),
    ("with warnings.catch_warnings(): warnings.simplefilter('ignore'); torch.func.jacrev(Counts.apply, chunk_size=2)(c)",
     "an op whose result has a size that depends on values runs for one example after another inside of vmap"),
    ("torch.ones(0, 2, 2).to_sparse_csr()",
     "a batch of no matrices has places of none"),
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
    ("calls_of_a_hook_of_one_part()", "1", "2, the second with None",
     "hooks of a tensor are called where a gradient arrives; the parts of unbind and split are results of their own"),
    ("number_that_another_process_wrote()", "0.0", "4.0",
     "a tensor of which views were made is sent to another process as a copy; share_memory_() before views are made shares it"),
    ("steps_of_a_second_computation()", "2", "1",
     "a second computation under checkpoint() ends behind the op that saves the last value, not before it"),
    ("view_of_an_inference_tensor().requires_grad", "True", "False",
     "a view of a leaf of inference mode that requires a gradient does so too; writing or saving either is refused"),
    ("calls_of_hooks_at_an_input()", "1", "3",
     "a pass for some inputs ends at them: of the op behind them neither hooks nor formula run"),
    ("calls_of_a_hook_of_a_view_before_a_write()", "1", "0",
     "a hook sees the gradient of the value that the tensor had when it was registered, of a view as of any other tensor"),
    ("gradients_that_the_node_of_var_mean_gets()", "1", "2", "variance and mean are results of two ops"),
    ("[version_after_data_was_set(), version_after_nothing_was_resized()]", "[0, 2]", "[1, 1]",
     "the version counts writes to the memory that the tensor has now, and resize_ as a write whether or not a size changes"),
    ("tangent_given_to_a_dual_that_was_written()", "[1.0, 2.0]", "[2.0, 2.0]",
     "tangents are derived, and the given one is written, when unpack_dual() asks for them"),
    ("tangent_under_no_grad().requires_grad", "True", "False",
     "a tangent depends on what it is derived from; detach() ends that"),
    ("gradient_seen_by_a_post_hook_of_a_leaf()", "1.0", "2.0",
     "hooks behind a leaf's node are shown the gradient that came in, not `.grad`, into which it was added"),
    ("torch.pow(torch.zeros(1, dtype=torch.complex64), 0)[0].item(), torch.zeros(1, dtype=torch.complex64).pow("
     "torch.zeros(1, dtype=torch.complex64)).item()", "((1+0j), (1+0j))", "((1+0j), (nan+nanj))",
     "any number to the power of zero is one, whether real or complex"),
    ("abs(torch.pow(torch.tensor(20 - 30j), torch.tensor(4.5 + 1j)).item() / (20 - 30j) ** (4.5 + 1j) - 1) < 1e-7", "True", "False",
     "powers of complex64 numbers are computed in double precision"),
    ("order_of_hooks_of_an_lstm()", "['weight_hh_l0', 'bias_hh_l0', 'bias_ih_l0', 'weight_ih_l0']",
     "weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0",
     "the input is projected by one op and the steps are another one; in what order hooks of different tensors come is not promised"),
    ("names_of_events_of_a_sum()", "['aten::rand', 'aten::sum']", "aten::rand, aten::empty, aten::uniform_, aten::sum, aten::as_strided, aten::fill_",
     "the profiler shows the ops that run, which are not made of others where PyTorch's are; for the same reason a node of the graph is one event"),
    ("most_dimensions_of_a_tensor()", "64", "none, but 64 for reductions over dimensions",
     "sets of dimensions are the bits of one number, as in PyTorch's reductions, and NumPy's arrays end there, too"),
    ("rows_longer_than_their_largest_norm()", "0", "depends on the numbers: 5 of 900",
     "rows are scaled by a factor in float64, so that the new norm, rounded, is not above max_norm"),
    ("layout_of_the_gradient_of_a_sparse_factor()", "torch.sparse_coo", "torch.strided",
     "the gradient of a sparse leaf has its places, as in torch.sparse.mm: an optimizer that adds elsewhere would fill it"),
    ("(torch.ones(2, 1).to_sparse() * torch.ones(2, 3)).to_dense().sum().item()", "6.0", "2.0",
     "a sparse factor is broadcast in all of its dimensions; PyTorch leaves out the copies along a sparse dimension of size 1"),
    ("what_a_scripted_module_says_that_is_saved_before_its_first_call()",
     "jit: nothing was called yet, so there is no program; call it once with an example", "nothing: it is compiled from its source",
     "programs are recorded when they run; modules that jit.load gave have one and are saved at any time"),
]  # fmt: skip

#: What the programs use.
SETTING = '''
import copy
import io
import json
import numpy
import torch
import warnings
F = torch.nn.functional
nan = float("nan")
c = torch.ones(2)
base = torch.ones(1, 2, requires_grad=True).clone()
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


class Plain(torch.Tensor):
    pass


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.size(), dtype=inside.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def unscriptable(x, **options):
    return {x, *options}


def turned(x):
    for _ in range(x.size(0)):
        x = -x
    return x


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0] + ctx.saved_tensors[0])


class Counts(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        gradient.nonzero()
        return gradient


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


def written(value):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return file


def calls_of_a_hook_of_one_part():
    calls = []
    parts = torch.ones(2, requires_grad=True).unbind()
    parts[0].register_hook(calls.append)
    for part in parts:
        part.backward()
    return len(calls)


def number_that_another_process_wrote():
    from multiprocessing.reduction import ForkingPickler
    torch.multiprocessing.reductions  # how tensors are sent
    x = torch.zeros(4)
    view = x[:2]
    ForkingPickler.loads(ForkingPickler.dumps(x)).fill_(4)
    return view[0].item()


def view_of_an_inference_tensor():
    with torch.inference_mode():
        x = torch.ones(2, requires_grad=True)
    return x.view(2)


def steps_of_a_second_computation():
    class Sines(torch.utils._python_dispatch.TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += function is torch.ops.aten.sin.default
            return function(*args, **(kwargs or {}))

    with Sines() as sines:
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1, requires_grad=True), use_reentrant=False).backward()
    return sines.count


def calls_of_hooks_at_an_input():
    calls = []
    x = torch.ones(1, requires_grad=True).clone()
    x.grad_fn.register_prehook(lambda gradients: calls.append(1))
    x.register_hook(lambda gradient: calls.append(2))
    x.grad_fn.register_hook(lambda given, got: calls.append(3))
    x.sum().backward(inputs=[x])
    return len(calls)


def calls_of_a_hook_of_a_view_before_a_write():
    calls = []
    x = torch.ones(1, requires_grad=True).clone()
    view = x[:]
    view.register_hook(calls.append)
    view.mul_(2)
    view.sum().backward()
    return len(calls)


def gradients_that_the_node_of_var_mean_gets():
    counts = []
    variance, mean = torch.var_mean(torch.ones(2, 2, requires_grad=True), 0)
    mean.grad_fn.register_prehook(lambda gradients: counts.append(len(gradients)))
    (variance + mean).sum().backward()
    return counts[0]


def version_after_data_was_set():
    x = torch.ones(2)
    x.add_(1)
    x.data = torch.zeros(2)
    return x._version


def version_after_nothing_was_resized():
    x = torch.ones(2)
    x.add_(1)
    x.resize_(2)
    return x._version


def tangent_given_to_a_dual_that_was_written():
    AD = torch.autograd.forward_ad
    with AD.dual_level():
        tangent = torch.ones(1)
        dual = AD.make_dual(torch.ones(1), tangent)
        dual *= 2
        return [tangent.item(), AD.unpack_dual(dual).tangent.item()]


def tangent_under_no_grad():
    AD = torch.autograd.forward_ad
    with AD.dual_level():
        dual = AD.make_dual(torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True))
        with torch.no_grad():
            twice = dual * 2
        return AD.unpack_dual(twice).tangent


def gradient_seen_by_a_post_hook_of_a_leaf():
    seen = []
    x = torch.ones(1, requires_grad=True)
    node = x.view(1).grad_fn.next_functions[0][0]

    def double(leaf):
        leaf.grad.mul_(2)

    x.register_post_accumulate_grad_hook(double)
    node.register_hook(lambda given, got: seen.append(got[0].item()))
    x.sum().backward()
    return seen[0]


def order_of_hooks_of_an_lstm():
    names = []
    layer = torch.nn.LSTM(2, 2)
    for name, parameter in layer.named_parameters():
        parameter.register_hook(lambda grad, name=name: names.append(name))
    layer(torch.ones(1, 2))[0].sum().backward()
    return names


def names_of_events_of_a_sum():
    with torch.autograd.profiler.profile() as recorded:
        torch.rand(3).sum()
    return [event.name for event in recorded.function_events]


def most_dimensions_of_a_tensor():
    for n in range(60, 1000):
        try:
            torch.ones([1] * n)
        except RuntimeError:
            return n - 1


def rows_longer_than_their_largest_norm():
    torch.manual_seed(0)
    weight = torch.randn(900, 5) * 2
    F.embedding(torch.arange(900), weight, max_norm=1.0)
    return (weight.norm(dim=1) > 1).sum().item()


def layout_of_the_gradient_of_a_sparse_factor():
    factor = torch.eye(2).to_sparse().requires_grad_()
    (factor @ torch.ones(2, 2)).sum().backward()
    return factor.grad.layout


def what_a_scripted_module_says_that_is_saved_before_its_first_call():
    try:
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), io.BytesIO())
    except RuntimeError as error:
        return error
'''
