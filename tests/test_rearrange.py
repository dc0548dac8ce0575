"""`func.rearrange`: patterns in the notation of einops."""

import pytest

import facula as torch

rearrange = torch.func.rearrange
x = torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pattern", "lengths", "expected"),
    [
        ("a b c -> c a b", {}, lambda x: x.permute(2, 0, 1)),
        ("a b c -> a (b c)", {}, lambda x: x.reshape(2, 12)),
        ("a b c -> (c b) a", {}, lambda x: x.permute(2, 1, 0).reshape(12, 2)),
        ("a b (c d) -> d a b c", {"d": 2}, lambda x: x.reshape(2, 3, 2, 2).permute(3, 0, 1, 2)),
        ("(a1 a2) ... -> a2 ... a1", {"a1": 2}, lambda x: x.reshape(2, 1, 3, 4).permute(1, 2, 3, 0)),
        ("... c -> c ...", {}, lambda x: x.permute(2, 0, 1)),
        ("a ... -> a (...)", {}, lambda x: x.reshape(2, 12)),
        ("a b c -> a 1 b () c", {}, lambda x: x.reshape(2, 1, 3, 1, 4)),
    ],
)
def test_patterns(pattern, lengths, expected):
    assert rearrange(x, pattern, **lengths).equal(expected(x))


def test_lists_gradients_and_batches():
    assert rearrange([torch.zeros(2), torch.ones(2)], "a b -> b a").tolist() == [[0, 1], [0, 1]]
    assert rearrange(torch.ones(1, 3), "1 b -> b").tolist() == [1, 1, 1]
    y = torch.ones(2, 3, requires_grad=True)
    (rearrange(y, "a b -> (b a)") * torch.arange(6.0)).sum().backward()
    assert y.grad.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert torch.vmap(lambda t: rearrange(t, "b c -> c b"))(x).equal(x.transpose(1, 2))


@pytest.mark.parametrize(
    ("pattern", "lengths", "text"),
    [
        ("a b c", {}, "^rearrange: a pattern has one ->"),
        ("a b c -> a b", {}, "^rearrange: each name must stand on both sides"),
        ("a b c -> a b ... c", {}, "^rearrange: ... must stand on both sides"),
        ("a b c ... -> a b c", {}, "^rearrange: "),
        ("a b -> b a", {}, "got a tensor of 3$"),
        ("a b c d -> b a c d", {}, "got a tensor of 3$"),
        ("a a b -> b a", {}, "names stand once"),
        ("(a (b c)) d e -> a b c d e", {}, "one level deep"),
        ("(a b c -> a b c", {}, "not balanced"),
        ("a b) c -> a b c", {}, "not balanced"),
        ("a b c* -> a b c", {}, r"got '\*'"),
        ("a b (c d) -> a b c d", {}, "cannot be taken apart"),
        ("a b (c d) -> a b c d", {"d": 3}, "cannot be taken apart"),
        ("a b c -> a b c", {"d": 3}, r"got \['d'\]$"),
        ("(... a) b c -> a b c ...", {}, "... is not taken apart"),
    ],
)
def test_what_is_refused(pattern, lengths, text):
    with pytest.raises(ValueError, match=text):
        rearrange(x, pattern, **lengths)
