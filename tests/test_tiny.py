"""The smoke test: run first, done in seconds."""

import numpy as np

import facula


def test_arithmetic():
    a = facula.tensor([1.0, 2.0, 3.0])
    b = facula.tensor([4.0, 5.0, 6.0])
    assert (a + b).tolist() == [5.0, 7.0, 9.0]
    assert (a * 2.0).tolist() == [2.0, 4.0, 6.0]
    assert (2 - a).tolist() == [1.0, 0.0, -1.0]
    assert (a > 1.5).tolist() == [False, True, True]


def test_broadcast_and_promotion():
    a = facula.tensor([[1], [2]])
    b = facula.tensor([0.5, 1.5])
    result = a + b
    assert result.shape == (2, 2) and result.dtype == facula.float32
    assert result.tolist() == [[1.5, 2.5], [2.5, 3.5]]


def test_views_share_memory():
    a = facula.zeros(2, 3)
    a[0][1] = 5.0
    a.transpose(0, 1)[2, 1] = 7.0
    assert a.tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 7.0]]
    assert a[::-1].tolist() == [[0.0, 0.0, 7.0], [0.0, 5.0, 0.0]]


def test_numpy_shares_memory():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = facula.from_numpy(array)
    tensor += 1
    assert array[0, 0] == 1.0
    tensor.numpy()[1, 2] = -1
    assert tensor[1, 2].item() == -1.0


def test_backward():
    x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0, 12.0]


def test_inplace_through_a_view():
    x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[1:] *= 10
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0]


def test_matrix_product():
    a = facula.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (a @ a).tolist() == [[7.0, 10.0], [15.0, 22.0]]
