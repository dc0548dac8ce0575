"""Annotations of public classes can be evaluated: transformers, pydantic and others ask for them (typing.get_type_hints)."""

import inspect
import typing

import pytest

import facula
from facula import nn, optim
from facula.utils import data

HOMES = [
    facula, nn, nn.utils.rnn, nn.parallel, nn.utils.parametrize, optim, optim.lr_scheduler, optim.swa_utils, data, facula.autograd,
    facula.autograd.forward_ad, facula.distributions, facula.distributions.constraints, facula.ao.nn.quantized,
    facula.ao.nn.intrinsic, facula.ao.quantization, facula.jit, facula.func, facula.profiler, facula.cuda, facula.amp,
]  # fmt: skip


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
def test_annotations_of_public_classes_are_names_that_are_there(home):
    classes = {name: getattr(home, name) for name in dir(home) if not name.startswith("_")}
    classes = {name: c for name, c in classes.items() if inspect.isclass(c) and c.__module__.startswith("facula")}
    wrong = {}
    for name, c in classes.items():
        try:
            typing.get_type_hints(c)
        except NameError as error:
            wrong[name] = str(error)
    assert not wrong


def test_a_subclass_knows_its_own_annotations_and_those_of_module():
    class Model(nn.Module):
        config: int

    hints = typing.get_type_hints(Model)
    assert hints["config"] is int and hints["training"] is bool
