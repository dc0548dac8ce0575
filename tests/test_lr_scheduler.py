"""Schedules of learning rates against closed forms."""

import math
import pickle

import pytest

import facula
from facula import nn, optim
from facula.optim import lr_scheduler as schedules

BASE = 0.5
EPOCHS = 12


def optimizer(cls=optim.SGD, lrs=(BASE,), **options):
    groups = [{"params": [nn.Parameter(facula.zeros(1))], "lr": lr} for lr in lrs]
    return cls(groups, lr=BASE, **options)


def rates(scheduler, opt, epochs=EPOCHS):
    """The rate of the first group in every epoch."""
    found = []
    for _ in range(epochs):
        found.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return found


def cosine(t, period, least=0.0):
    return least + (BASE - least) * (1 + math.cos(math.pi * t / period)) / 2


FORMS = {
    "StepLR": (lambda o: schedules.StepLR(o, 3, 0.5), lambda t: BASE * 0.5 ** (t // 3)),
    "MultiStepLR": (lambda o: schedules.MultiStepLR(o, [2, 5, 5]), lambda t: BASE * 0.1 ** ((t >= 2) + 2 * (t >= 5))),
    "ConstantLR": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda t: BASE * (0.25 if t < 4 else 1.0)),
    "LinearLR": (lambda o: schedules.LinearLR(o, 0.5, 1.0, 4), lambda t: BASE * (0.5 + 0.5 * min(t, 4) / 4)),
    "ExponentialLR": (lambda o: schedules.ExponentialLR(o, 0.9), lambda t: BASE * 0.9**t),
    "PolynomialLR": (lambda o: schedules.PolynomialLR(o, 8, 2.0), lambda t: BASE * (1 - min(t, 8) / 8) ** 2),
    "CosineAnnealingLR": (lambda o: schedules.CosineAnnealingLR(o, 5, 0.1), lambda t: cosine(t, 5, 0.1)),
    "LambdaLR": (lambda o: schedules.LambdaLR(o, lambda t: 1 / (1 + t)), lambda t: BASE / (1 + t)),
    "MultiplicativeLR": (lambda o: schedules.MultiplicativeLR(o, lambda t: 0.9), lambda t: BASE * 0.9**t),
    "CosineAnnealingWarmRestarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
        lambda t: cosine(t, 2) if t < 2 else cosine(t - 2, 4) if t < 6 else cosine(t - 6, 8),
    ),
    "CyclicLR": (
        lambda o: schedules.CyclicLR(o, 0.1, 0.5, 2, 4, cycle_momentum=False),
        lambda t: 0.1 + 0.4 * ((t % 6) / 2 if t % 6 <= 2 else (6 - t % 6) / 4),
    ),
    "SequentialLR": (
        lambda o: schedules.SequentialLR(
            o, [schedules.ConstantLR(o, 0.1, 100), schedules.ExponentialLR(o, 0.5)], milestones=[3]
        ),
        lambda t: BASE * 0.1 if t < 3 else BASE * 0.5 ** (t - 3),
    ),
    "ChainedScheduler": (
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.9)]),
        lambda t: BASE * (0.5 if t < 2 else 1.0) * 0.9**t,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_closed_forms(name):
    make, form = FORMS[name]
    opt = optimizer()
    assert rates(make(opt), opt) == pytest.approx([form(t) for t in range(EPOCHS)], abs=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_state_dicts_continue(name):
    make, form = FORMS[name]
    opt = optimizer()
    scheduler = make(opt)
    rates(scheduler, opt, 5)
    saved = pickle.loads(pickle.dumps((opt.state_dict(), scheduler.state_dict())))
    fresh = optimizer()
    other = make(fresh)
    fresh.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert rates(other, fresh, 5) == pytest.approx([form(t) for t in range(5, 10)], abs=1e-12)


def test_one_cycle():
    opt = optimizer(momentum=0.9)
    scheduler = schedules.OneCycleLR(opt, 1.0, total_steps=10, anneal_strategy="linear", div_factor=10)
    found, momenta = [], []
    for _ in range(10):
        found.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        if len(found) < 10:
            scheduler.step()
    assert found[0] == pytest.approx(0.1) and found[2] == pytest.approx(1.0) and found[9] == pytest.approx(1e-5)
    assert momenta[0] == pytest.approx(0.95) and momenta[2] == pytest.approx(0.85) and momenta[9] == pytest.approx(0.95)
    scheduler.step()
    with pytest.raises(ValueError, match="OneCycleLR"):
        scheduler.step()


def test_one_cycle_of_adam_moves_the_first_beta():
    opt = optimizer(optim.Adam)
    schedules.OneCycleLR(opt, 1.0, epochs=2, steps_per_epoch=5, three_phase=True)
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)


def test_cyclic_momentum_opposes_the_rate():
    opt = optimizer(momentum=0.9)
    scheduler = schedules.CyclicLR(opt, 0.1, 0.5, 2, mode="triangular2")
    assert opt.param_groups[0]["momentum"] == pytest.approx(0.9)
    rates(scheduler, opt, 2)
    assert opt.param_groups[0]["lr"] == pytest.approx(0.5) and opt.param_groups[0]["momentum"] == pytest.approx(0.8)
    rates(scheduler, opt, 4)
    assert opt.param_groups[0]["lr"] == pytest.approx(0.3)


def test_reduce_on_plateau():
    opt = optimizer()
    scheduler = schedules.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    for metric, want in ((1.0, 0.5), (1.0, 0.5), (1.0, 0.25), (1.0, 0.25), (1.0, 0.25), (1.0, 0.2), (0.5, 0.2)):
        scheduler.step(metric)
        assert opt.param_groups[0]["lr"] == pytest.approx(want)
    assert scheduler.best == 0.5 and scheduler.get_last_lr() == [0.2]


def test_swa_lr():
    opt = optimizer()
    scheduler = optim.swa_utils.SWALR(opt, 0.1, anneal_epochs=4, anneal_strategy="linear")
    assert rates(scheduler, opt, 6) == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.1])


def test_groups_keep_their_own_rates():
    opt = optimizer(lrs=(0.5, 0.1))
    scheduler = schedules.LambdaLR(opt, [lambda t: 1.0, lambda t: 0.5**t])
    rates(scheduler, opt, 2)
    assert scheduler.get_last_lr() == pytest.approx([0.5, 0.025])


def test_tensor_rates_are_changed_in_place():
    lr = facula.tensor(0.5)
    opt = optimizer(lrs=(lr,))
    rates(schedules.ExponentialLR(opt, 0.5), opt, 2)
    assert opt.param_groups[0]["lr"] is lr and lr.item() == 0.125


def test_wrong_order_warns():
    scheduler = schedules.ExponentialLR(optimizer(), 0.5)
    with pytest.warns(UserWarning, match=r"optimizer\.step\(\) comes before"):
        scheduler.step()


def test_bad_arguments():
    opt = optimizer()
    with pytest.raises(TypeError, match="StepLR: needs an Optimizer"):
        schedules.StepLR(None, 1)
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(opt, 1, last_epoch=3)
    for make in (
        lambda: schedules.ConstantLR(opt, 2.0),
        lambda: schedules.LinearLR(opt, 0.0),
        lambda: schedules.ReduceLROnPlateau(opt, factor=1.0),
        lambda: schedules.OneCycleLR(opt, 1.0),
        lambda: schedules.CyclicLR(opt, 0.1, 0.2, mode="square"),
        lambda: schedules.SequentialLR(opt, [schedules.StepLR(opt, 1)], [1]),
        lambda: schedules.LambdaLR(opt, [abs, abs]),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedules.LambdaLR(o, lambda epoch: 0.5),
        lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.5),
        lambda o: schedules.CyclicLR(o, 0.1, 1.0, cycle_momentum=False),
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 5),
        lambda o: schedules.OneCycleLR(o, 0.1, total_steps=10, cycle_momentum=False),
    ],
)
def test_a_group_that_is_added_later_is_named(make):
    opt = optimizer()
    scheduler = make(opt)
    opt.step()
    opt.add_param_group({"params": [facula.nn.Parameter(facula.zeros(1))]})
    with pytest.raises((ValueError, KeyError), match=f"{type(scheduler).__name__}: expected .*group.*after the scheduler was made"):
        scheduler.step()


def test_rates_given_as_tensors_are_kept_as_copies():
    for make in (
        lambda o, lr: optim.swa_utils.SWALR(o, swa_lr=lr),
        lambda o, lr: schedules.OneCycleLR(o, max_lr=lr, total_steps=4),
        lambda o, lr: schedules.CyclicLR(o, base_lr=lr, max_lr=1.0, cycle_momentum=False),
    ):
        own, lr = optimizer(), facula.tensor(0.5)
        make(own, lr)
        before = [{k: float(v) for k, v in g.items() if isinstance(v, facula.Tensor)} for g in own.param_groups]
        lr.mul_(7)
        assert before == [{k: float(v) for k, v in g.items() if isinstance(v, facula.Tensor)} for g in own.param_groups]


def test_a_step_that_was_replaced_is_told():
    own = optimizer()
    scheduler = schedules.StepLR(own, 1)
    own.step = lambda: None
    own.step()
    with pytest.warns(UserWarning, match="was replaced"):
        scheduler.step()
    with pytest.warns(UserWarning) as seen:
        scheduler.step(3)
    assert str(seen[0].message) == schedules.EPOCH_DEPRECATION_WARNING
