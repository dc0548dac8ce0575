"""What the common mistakes say: the class is PyTorch's, the text begins with the op and ends with what was received."""

import copy
import re
import warnings

import numpy as np
import pytest

import facula as torch
from facula import nn

F = nn.functional
leaf = torch.ones(3, requires_grad=True)


def backward_twice():
    y = (leaf * leaf).sum()
    y.backward()
    y.backward()


def saved_then_changed():
    y = torch.randn(3, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


def frozen():
    array = np.arange(4.0)
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


# (what the program does, class, how the text begins, how it ends)
MISTAKES = [
    (lambda: torch.randn(3, 4) @ torch.randn(5, 6), RuntimeError, "mm: ", r"got \[3, 4\] and \[5, 6\]"),
    (lambda: nn.Linear(10, 5)(torch.randn(3, 4)), RuntimeError, "linear: ", r"got .*\[3, 4\].*\[5, 10\]"),
    (lambda: nn.Conv2d(3, 8, 3)(torch.randn(1, 4, 8, 8)), RuntimeError, "conv2d: ", r"\[8, 3, 3, 3\].*"),
    (lambda: torch.randn(3, 4) + torch.randn(3, 5), RuntimeError, "add: ", r"got \[3, 4\] and \[3, 5\]"),
    (lambda: torch.cat([torch.randn(3, 4), torch.randn(3, 5)]), RuntimeError, "cat: ", r"got \[3, 4\] and \[3, 5\]"),
    (lambda: torch.stack([torch.randn(3), torch.randn(4)]), RuntimeError, "stack: ", r"got \[3\] and \[4\]"),
    (lambda: torch.randn(3, 4).t().view(12), RuntimeError, "view: ", r"got .*\[4, 3\].*"),
    (lambda: torch.randn(3, 4).reshape(5, 3), RuntimeError, "reshape: ", r"\[5, 3\].* size 12"),
    (lambda: torch.randn(3, 4) @ torch.ones(4, 3).double(), RuntimeError, "mm: ", "got float32 and float64"),
    (lambda: nn.Linear(4, 4)(torch.ones(2, 4).double()), RuntimeError, "linear: ", "got float64 and float32"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1])), ValueError, "cross_entropy: ", "got 2"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 7])), IndexError, "cross_entropy: class index 7", ".*"),
    (lambda: F.cross_entropy(torch.randn(3, 4), torch.tensor([0.0, 1, 2])), RuntimeError, "cross_entropy: ", "got float32"),
    (lambda: F.binary_cross_entropy(torch.rand(8, 1), torch.rand(8)), ValueError, "binary_cross_entropy: ", r"got \(8,\)"),
    (lambda: nn.Embedding(10, 3)(torch.tensor([11])), IndexError, "embedding: .*11", ".*"),
    (lambda: torch.randn(3)[5], IndexError, "index 5 is out of bounds|.*: .*5", ".*"),
    (lambda: torch.gather(torch.randn(3, 3), 1, torch.tensor([[4]])), RuntimeError, "gather: ", "got 4"),
    (lambda: leaf.add_(1), RuntimeError, "add_?: ", ".*"),
    (saved_then_changed, RuntimeError, "backward of exp", ".*"),
    (backward_twice, RuntimeError, "backward: ", ".*"),
    (lambda: torch.ones(3).sum().backward(), RuntimeError, "backward: ", ".*"),
    (lambda: (leaf * 2).backward(), RuntimeError, "backward: ", r"got .*\[3\]"),
    (lambda: torch.ones(3).item(), RuntimeError, "item: ", "got 3 elements"),
    (lambda: bool(torch.ones(3) > 0), RuntimeError, "bool: ", r"got .*3.*"),
    (lambda: leaf.numpy(), RuntimeError, "numpy: ", r"got shape \[3\]"),
    (lambda: torch.ones(2, device="cuda"), AssertionError, "ones: |empty: |.*cuda", ".*"),
    (lambda: nn.Linear(3, 2).load_state_dict({"weight": torch.zeros(2, 4)}), RuntimeError, ".*load_state_dict", ".*"),
    (lambda: copy.deepcopy(leaf * 2), RuntimeError, "deepcopy: ", "got the result of MulBackward0"),
    (lambda: torch.arange(4).mean(), RuntimeError, r"mean\(\)?:? ", "got int64"),
    (lambda: leaf.split(1)[0].add_(1), RuntimeError, ".*", ".*"),
    (lambda: nn.MultiheadAttention(10, 3), AssertionError, "MultiheadAttention: ", "got .*10.*3.*"),
    (lambda: nn.BatchNorm1d(3)(torch.randn(1, 3)), ValueError, "batch_norm: ", r"got .*\(?\[?1, 3.*"),
    (lambda: torch.empty(0).max(), RuntimeError, r"max\(?\)?: ", r"got shape \[0\]"),
    (lambda: frozen().add_(1), RuntimeError, "add_?: ", r"got shape \[4\]"),
    (lambda: torch.zeros(2, 2).fill_diagonal_("x"), TypeError, r"fill_diagonal_\(\): ", r"got \(.*str\)"),
    (lambda: torch.ones(2).to("gpu"), RuntimeError, "(to|device): ", "got '?gpu'?"),
    (lambda: torch.zeros(3).expand(2, 4), RuntimeError, "expand: ", r"got .*\[2, 4\].*"),
    (lambda: torch.ones(2, 3).sum(5), IndexError, r"sum\(?\)?: ", "got 5"),
    (lambda: torch.zeros(2, dtype=torch.uint8).fill_(300), RuntimeError, "fill: ", "got 300"),
    (lambda: torch.zeros(2, 3).squeeze(0).t().unsqueeze(4), IndexError, "unsqueeze: ", "got 4"),
]


@pytest.mark.parametrize(("mistake", "error", "begins", "ends"), MISTAKES, ids=range(len(MISTAKES)))
def test_common_mistake(mistake, error, begins, ends):
    with pytest.raises(error) as caught:
        mistake()
    first, last = str(caught.value).strip().splitlines()[0], str(caught.value).strip().splitlines()[-1]
    assert re.match(begins, first), first
    assert re.search(f"{ends}\\)?$", last), last
