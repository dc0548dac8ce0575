"""Forward and backward as one program: what it gives is what eager gives, bit for bit."""

import copy
import os
import subprocess
import sys

import pytest

import facula
import facula.nn.functional as F
from facula import export, nn
from facula.export import Dim
from facula.export._joint import joint_program


class Step(nn.Module):
    """A model and its loss."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return F.cross_entropy(self.net(x), y)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6, num_layers=2, dropout=0.2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4, padding_idx=1), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.words(x).mean(1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True, activation="gelu")
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.layer(x)[:, 0])


def conv():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding=1, groups=2),
        nn.GroupNorm(2, 4), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def activations():
    kinds = [nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Hardtanh, nn.Softplus, nn.PReLU]
    return nn.Sequential(nn.Linear(8, 8), *(kind() for kind in kinds), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), lambda: facula.randn(4, 8)),
    "activations": (activations, lambda: facula.randn(4, 8)),
    "conv": (conv, lambda: facula.randn(4, 2, 12, 12)),
    "lstm": (Lstm, lambda: facula.randn(4, 5, 4)),
    "embedding": (Words, lambda: facula.randint(0, 9, (4, 5))),
    "transformer": (Block, lambda: facula.randn(4, 5, 8)),
}


def made(name):
    facula.manual_seed(3)
    build, inputs = MODELS[name]
    x = inputs()
    return Step(build()).train(), (x, facula.randint(0, 3, (len(x),)))


def eager(model, args):
    """Loss, gradients by path, and the state after the step."""
    model.zero_grad()
    facula.manual_seed(7)
    loss = model(*args)
    loss.backward()
    return loss.detach(), {path: p.grad for path, p in model.named_parameters()}, copy.deepcopy(model.state_dict())


def gradients(program, outputs):
    return {target: o for (kind, target), o in zip(program.roles, outputs) if kind == "parameter_gradient"}


@pytest.mark.parametrize("name", MODELS)
def test_a_joint_program_gives_what_eager_gives(name):
    model, args = made(name)
    before = copy.deepcopy(model.state_dict())
    joint = joint_program(export.export(model, args))
    assert all(facula.equal(v, before[k]) for k, v in model.state_dict().items())  # as it was
    loss, grads, after = eager(model, args)
    model.load_state_dict(before)
    facula.manual_seed(7)
    outputs = joint.program.run(args)
    assert facula.equal(outputs[0], loss) and not outputs[0].requires_grad
    found = gradients(joint.program, outputs)
    assert found.keys() == grads.keys()
    assert all(facula.equal(found[k], g) for k, g in grads.items())
    assert all(facula.equal(v, after[k]) for k, v in model.state_dict().items())


def test_the_signature_says_what_outputs_are():
    model, args = made("mlp")
    joint = joint_program(export.export(model, args))
    backward = joint.graph_signature.backward_signature
    assert backward.loss_output == joint.graph_signature.output_specs[0].arg.name
    assert list(backward.gradients_to_parameters.values()) == [path for path, _ in model.named_parameters()]
    assert export.export(model, args).graph_signature.backward_signature is None
    again = facula._C._Program.parse(joint.program.text())
    assert again.roles == joint.program.roles and again.roles[0] == ("loss", "")


def test_sizes_vary_in_joint_programs():
    model, args = made("activations")
    batch = Dim("batch", min=2, max=64)
    model.eval()
    joint = joint_program(export.export(model, args, dynamic_shapes=({0: batch}, {0: batch})))
    larger = facula.randn(11, 8), facula.randint(0, 3, (11,))
    loss, grads, _ = eager(model, larger)
    outputs = joint.program.run(larger)
    found = gradients(joint.program, outputs)
    assert facula.equal(outputs[0], loss) and all(facula.equal(found[k], g) for k, g in grads.items())


def test_cotangents_are_inputs_where_there_is_no_loss():
    net = nn.Linear(4, 3)
    x = facula.randn(5, 4).requires_grad_()
    joint = joint_program(export.export(net, (x,)), loss=None)
    assert [i[2] for i in joint.program.inputs if i[0] == "user"][1:] == ["tangents_0"]
    cotangent = facula.randn(5, 3)
    result, of_weight, of_bias, of_x = joint.program.run([x, cotangent])
    wanted = facula.autograd.grad(net(x), (net.weight, net.bias, x), cotangent)
    assert all(facula.equal(a, b) for a, b in zip((of_weight, of_bias, of_x), wanted))
    assert joint.program.roles[-1] == ("input_gradient", "input")


def test_gradients_of_gradients():
    class Smooth(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 1)

        def forward(self, x):
            return self.b(facula.tanh(self.a(x))).sum()

    model, x = Smooth(), facula.randn(5, 3)
    first = joint_program(export.export(model, (x,)), differentiable=True)
    roles = [target for _, target in first.program.roles]
    place = roles.index("a.weight")
    program, results, _ = first.program.joint([x], -1, False)
    tangents = [facula.zeros(first.program.values[v][2][1]) for _, v in first.program.outputs]
    inputs = [i[2] for i in program.inputs if i[0] == "user"][1:]
    follows = [n for n, (_, v) in enumerate(first.program.outputs) if n == 0 or roles[n] != "b.bias"]
    assert len(inputs) == len(follows)
    given = [facula.ones_like(t) if n == place else t for n, t in enumerate(tangents)]
    outputs = program.run([x, *(given[n] for n in follows)])
    loss = model(x)
    grad = facula.autograd.grad(loss, model.a.weight, create_graph=True)[0]
    wanted = dict(zip(["a.weight", "a.bias", "b.weight"], facula.autograd.grad(
        grad.sum(), (model.a.weight, model.a.bias, model.b.weight))))  # fmt: skip
    found = gradients(program, outputs)
    assert all(facula.allclose(found[k], w, rtol=1e-5, atol=1e-6) for k, w in wanted.items())


def test_decomposed_programs_have_kernels_only():
    program = export.export(nn.Sequential(nn.LayerNorm(6), nn.Dropout(0.0)).eval(), (facula.randn(2, 6),)).program
    x = facula.randn(2, 6)
    for examples in ([], [x]):
        opened = program.decompose(examples)
        assert [n[0] for n in opened.nodes] == ["_row_norm.default"]
        assert facula.equal(opened.run([x])[0], program.run([x])[0])


def test_what_cannot_be_differentiated_is_named():
    class Chooses(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(facula.ones(3))

        def forward(self, x):
            return facula.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x * self.w,)).sum()

    with pytest.raises(NotImplementedError, match="joint: cond depends on values"):
        joint_program(export.export(Chooses(), (facula.ones(3),)))
    model, args = made("mlp")
    exported = export.export(model.net, args[:1])
    with pytest.raises(RuntimeError, match=r"joint: output 0 must be a scalar that requires a gradient, got float32\[4, 3\]"):
        joint_program(exported)
    with pytest.raises(IndexError, match="joint: the program has 1 outputs, got number 4"):
        joint_program(exported, 4)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(RuntimeError, match="joint: none of the 1 outputs requires a gradient"):
        joint_program(export.export(model.net, args[:1]), None)


def test_generators_of_all_devices_and_of_the_program_are_put_back():
    program = """
import facula
from facula import export, nn
from facula.export._joint import joint_program
facula._C._enable_guard_device()
own = facula.Generator().manual_seed(3)
class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(facula.ones(3, device="guard"))
    def forward(self, x):
        drawn = facula.rand(3, device="guard") + facula.rand(3, generator=own).to("guard")
        return (self.w * drawn + x).sum() + facula.rand(()).to("guard")
ep = export.export(Noise(), (facula.ones(3, device="guard"),))
generators = [facula.default_generator, facula._C._default_generator(facula.device("guard")), own]
before = [g.get_state() for g in generators]
joint_program(ep, loss=0)
assert [facula.equal(g.get_state(), b) for g, b in zip(generators, before)] == [True] * 3
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert done.returncode == 0, done.stderr


class Renormed(facula.nn.Module):
    """Writes to its parameter, and to a buffer, through views of them."""

    def __init__(self):
        super().__init__()
        self.weight = facula.nn.Parameter(facula.tensor([[3.0, 4.0], [1.0, 2.0]]))
        self.register_buffer("seen", facula.zeros(4))

    def forward(self, x):
        with facula.no_grad():
            self.weight.view(-1)[:2].mul_(0.5)
            self.seen.view(2, 2)[0].add_(1)
        return (x @ self.weight).sum() + self.seen.sum()


def test_what_a_program_holds_is_not_written_through_views():
    model, x = Renormed(), facula.ones(1, 2)
    exported = export.export(model, (x,))
    before = {name: t.clone() for name, t in model.state_dict().items()}
    joint_program(exported)
    exported.program.decompose([x])
    exported.program.decompose([])
    assert all(facula.equal(t, before[name]) for name, t in model.state_dict().items())
