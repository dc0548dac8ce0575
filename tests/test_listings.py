"""The two listings of the NeurIPS 2019 paper as programs: what they sketch, with shapes that fit.

Listing 1 is a linear layer of one's own and a convolutional network that uses it. Listing 2 is the training step of a
generative adversarial network: two models, two optimizers, two losses, in ordinary Python.
"""

import numpy as np
import pytest

import facula as torch
from facula import nn


class LinearLayer(nn.Module):
    """A weight (in, out) and a bias, as parameters of a class of one's own."""

    def __init__(self, in_size, out_size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_size, out_size) / in_size**0.5)
        self.bias = nn.Parameter(torch.randn(out_size))

    def forward(self, activations):
        return torch.mm(activations, self.weight) + self.bias


class FullBasicModel(nn.Module):
    """A convolution and that layer, with the glue written in Python."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 128, 3)
        self.fc = LinearLayer(128 * 6 * 6, 10)

    def forward(self, x):
        hidden = nn.functional.relu(self.conv(x))
        return nn.functional.softmax(self.fc(hidden.flatten(1)), dim=1)


def test_listing_1_a_layer_of_ones_own():
    layer = LinearLayer(4, 3)
    assert [(name, tuple(p.shape)) for name, p in layer.named_parameters()] == [("weight", (4, 3)), ("bias", (3,))]
    x = torch.randn(5, 4)
    y = layer(x)
    assert np.allclose(y.detach().numpy(), x.numpy() @ layer.weight.detach().numpy() + layer.bias.detach().numpy(), atol=1e-6)
    y.sum().backward()
    assert np.allclose(layer.weight.grad.numpy(), np.repeat(x.numpy().sum(0)[:, None], 3, 1), atol=1e-6)
    assert layer.bias.grad.tolist() == [5, 5, 5]


def test_listing_1_the_network():
    torch.manual_seed(0)
    model = FullBasicModel()
    assert [name for name, _ in model.named_parameters()] == ["conv.weight", "conv.bias", "fc.weight", "fc.bias"]
    images = torch.randn(6, 1, 8, 8)
    chances = model(images)
    assert chances.shape == (6, 10) and torch.allclose(chances.sum(1), torch.ones(6))
    digits = torch.arange(6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -model(images).gather(1, digits[:, None]).log().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    assert model(images).argmax(1).tolist() == digits.tolist()


def test_listing_1_a_wrong_shape_is_a_clear_error():
    with pytest.raises(RuntimeError, match=r"^mm: .* got \(2, 3200\) and \(4608, 10\)$"):
        FullBasicModel()(torch.randn(2, 1, 7, 7))


def create_generator():
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))


def create_discriminator():
    return nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())


def get_noise(count):
    return torch.randn(count, 2)


REAL, FAKE = 1.0, 0.0


class Adversaries:
    """The variables and the step of Listing 2."""

    def __init__(self):
        self.discriminator = create_discriminator()
        self.generator = create_generator()
        self.optim_d = torch.optim.Adam(self.discriminator.parameters(), lr=1e-2, betas=(0.5, 0.9))
        self.optim_g = torch.optim.Adam(self.generator.parameters(), lr=1e-2, betas=(0.5, 0.9))

    @staticmethod
    def loss(answers, label):
        return nn.functional.binary_cross_entropy(answers, torch.full_like(answers, label))

    def step(self, real_sample):
        # the discriminator: real samples are to be told from generated ones
        self.optim_d.zero_grad()
        err_real = self.loss(self.discriminator(real_sample), REAL)
        err_real.backward()
        fake = self.generator(get_noise(len(real_sample)))
        err_fake = self.loss(self.discriminator(fake.detach()), FAKE)
        err_fake.backward()
        self.optim_d.step()
        # the generator: its samples are to be taken for real
        self.optim_g.zero_grad()
        err_gen = self.loss(self.discriminator(fake), REAL)
        err_gen.backward()
        self.optim_g.step()
        return err_real.item() + err_fake.item(), err_gen.item()


def test_listing_2_detach_keeps_the_generator_out():
    torch.manual_seed(0)
    pair = Adversaries()
    fake = pair.generator(get_noise(4))
    pair.loss(pair.discriminator(fake.detach()), FAKE).backward()
    assert all(p.grad is None for p in pair.generator.parameters())
    assert all(p.grad is not None for p in pair.discriminator.parameters())
    pair.loss(pair.discriminator(fake), REAL).backward()
    assert all(p.grad.abs().sum() > 0 for p in pair.generator.parameters())


def test_listing_2_learns_a_distribution():
    torch.manual_seed(0)
    pair = Adversaries()
    center = torch.tensor([2.0, -1.0])
    before = (pair.generator(get_noise(500)).mean(0) - center).norm().item()
    for _ in range(400):
        errors = pair.step(center + 0.3 * torch.randn(64, 2))
        assert all(np.isfinite(errors))
    with torch.no_grad():
        made = pair.generator(get_noise(500))
    # the two keep chasing each other: near the real samples, and neither one point nor spread out
    assert before > 1.5 and (made.mean(0) - center).norm() < 1 and 0.02 < made.std(0).min() < 1
