"""Sobol sequences, with the points that PyTorch gives, and SciPy where it is there."""

import pytest

import facula as torch

SobolEngine = torch.quasirandom.SobolEngine


def test_points_are_pytorchs():
    engine = SobolEngine(3)
    assert engine.draw(5).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75], [0.375, 0.375, 0.625]]
    assert engine.fast_forward(3) is engine and engine.num_generated == 8
    assert engine.draw(2).tolist() == [[0.1875, 0.3125, 0.9375], [0.6875, 0.8125, 0.4375]]
    assert engine.reset().draw(1).tolist() == [[0, 0, 0]] and repr(engine) == "SobolEngine(dimension=3)"
    assert SobolEngine(2).fast_forward(5).draw(1, dtype=torch.float64).tolist() == [[0.875, 0.875]]
    assert SobolEngine(256).draw(8)[5, [0, 100, 255]].tolist() == [0.875, 0.125, 0.875]
    out = torch.empty(0)
    assert SobolEngine(2).draw(2, out=out) is out and out.tolist() == [[0, 0], [0.5, 0.5]]
    assert SobolEngine(2).draw(0).shape == (0, 2) and SobolEngine.MAXDIM == 21201


@pytest.mark.parametrize("dimension", [1, 40, 256, 1000])
def test_points_are_scipys(dimension):
    qmc = pytest.importorskip("scipy.stats").qmc
    expected = qmc.Sobol(dimension, scramble=False, bits=30).random(64)
    assert SobolEngine(dimension).draw(64, dtype=torch.float64).tolist() == expected.tolist()


def test_a_scrambled_sequence_has_a_point_in_every_interval():
    engine = SobolEngine(4, scramble=True, seed=5)
    points = engine.draw(64)
    for column in points.T:
        assert sorted((column * 64).long().tolist()) == list(range(64))
    assert engine.reset().draw(64).equal(points) and SobolEngine(4, scramble=True, seed=5).draw(64).equal(points)
    assert not SobolEngine(4, scramble=True, seed=6).draw(64).equal(points)
    assert repr(engine) == "SobolEngine(dimension=4, scramble=True, seed=5)"


def test_powers_of_two():
    engine = SobolEngine(2)
    assert engine.draw_base2(2).shape == (4, 2) and engine.draw_base2(2).shape == (4, 2)
    with pytest.raises(ValueError, match=r"^draw_base2: points balance .* n=8\+2\*\*2=12"):
        engine.draw_base2(2)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: SobolEngine(0), r"\[1, 21201\], got 0$"),
        (lambda: SobolEngine(30000), "got 30000$"),
        (lambda: SobolEngine(1.5), "got 1.5$"),
        (lambda: SobolEngine(2).draw(-1), "got -1$"),
        (lambda: SobolEngine(2).fast_forward(-1), "got -1$"),
        (lambda: SobolEngine(1).fast_forward(2**31), "got 0 and 2147483648 more$"),
        (lambda: SobolEngine(1).draw(2**31), "got 0 and 2147483648 more$"),
    ],
)
def test_what_is_refused(use, text):
    with pytest.raises(ValueError, match=text):
        use()
