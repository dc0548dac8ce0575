"""Every way to look at a tensor that waits, and to write to one that is still to be read (tests/deferred_cases.py)."""

from __future__ import annotations

import ctypes
import io
import json
import os
import pickle
import threading
import warnings

import numpy as np
from deferred_cases import digest, is_deferred

import facula
import facula.nn.functional as F
from facula import nn

# ---- doors: every way to look at a tensor


def waiting(kind="float"):
    """(a deferred tensor, the same with its bytes)."""
    start = {"float": facula.arange(12.0).reshape(3, 4), "int": facula.arange(12).reshape(3, 4), "one": facula.full((1,), 2.5),
             "vector": facula.arange(5.0)}[kind]
    start.sum().item()  # has its bytes
    made, twin = start * 3, start * 3
    twin.sum().item()
    twin.tolist()
    assert is_deferred(made) and not is_deferred(twin), "nothing is deferred here"
    return made, twin


def shown(value):
    """The same text for the same outcome."""
    if isinstance(value, facula.Tensor):
        return digest(value)
    if isinstance(value, np.ndarray):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or isinstance(value, int) and value > 1 << 32 else text


def outcome(f):
    try:
        return shown(f())
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


UNLIKE = """
    __dir__ __reduce__ __sizeof__ __hash__ __init_subclass__ __subclasshook__ __class__ __new__ __init__ __del__ _backward_hooks
    data_ptr _array_interface _cdata __dlpack__ normal_ uniform_ random_ exponential_ geometric_ cauchy_ log_normal_ bernoulli_
    bernoulli multinomial
""".split()  # different each time, or of no meaning


def met(name):
    """A look at the attribute, or a call of the method without arguments."""

    def look(t):
        value = getattr(t, name)
        return value() if callable(value) else value

    return look


def compared(kind, name, look):
    """Looks at a tensor that waits and at one that does not; what differs, or None."""
    made, twin = waiting(kind)
    found = [outcome(lambda t=t: (look(t), t) if name in CHANGE else look(t)) for t in (made, twin)]
    found += [outcome(lambda t=t: t) for t in (made, twin)]
    return None if found[0] == found[1] and found[2] == found[3] else (kind, name, *found)


def doors():
    """Every attribute and every method without arguments of a tensor, then those with arguments that show memory."""
    warnings.simplefilter("ignore")
    names = [name for name in dir(facula.Tensor) if name not in UNLIKE]
    cases = [(kind, name, met(name)) for kind in ("float", "int", "one", "vector") for name in names]
    cases += [(kind, name, look) for kind in ("float", "int") for name, look in LOOKS.items()]
    failures = [failure for case in cases if (failure := compared(*case))]
    print(json.dumps({"met": len(cases), "failures": failures}))


CHANGE = ("resize_", "out", "assignment", "swap", "foreach_")


def through_pickle(t):
    return pickle.loads(pickle.dumps(t))


def through_save(t):
    file = io.BytesIO()
    facula.save({"t": t, "view": t[1:]}, file)
    file.seek(0)
    return facula.load(file)["view"]


def through_address(t):
    size = t.numel() * t.element_size()
    return ctypes.string_at(t.data_ptr(), size)


def through_set(t):
    other = facula.empty(0, dtype=t.dtype)
    other.set_(t)
    return other


def through_data(t):
    other = facula.zeros(2, dtype=t.dtype)
    other.data = t
    return other


def through_resize(t):
    t.resize_(2, 2)
    return t


def through_out(t):
    facula.add(facula.ones(3, 4, dtype=t.dtype), 1, out=t)
    return t


def through_fork(t):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(t.tolist()).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 10000)


def through_thread(t):
    found = []
    threads = [threading.Thread(target=lambda: found.append(t.tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def through_weak_reference(t):
    import weakref

    return weakref.ref(t)().sum()


LOOKS = {
    "pickle": through_pickle,
    "save": through_save,
    "address": through_address,
    "set_": through_set,
    "data": through_data,
    "resize_": through_resize,
    "out": through_out,
    "fork": through_fork,
    "thread": through_thread,
    "weak reference": through_weak_reference,
    "numpy": lambda t: t.numpy(),
    "numpy of a view": lambda t: t[1:].numpy(),
    "asarray": lambda t: np.asarray(t),
    "np function": lambda t: np.add(t, 1),
    "dlpack": lambda t: facula.from_dlpack(t),
    "numpy dlpack": lambda t: np.from_dlpack(t),
    "memoryview": lambda t: memoryview(t).tobytes(),
    "bytes": lambda t: bytes(t.untyped_storage()),
    "storage": lambda t: t.untyped_storage()[3],
    "typed storage": lambda t: list(t.storage())[:3],
    "storage of a view": lambda t: t[1].untyped_storage().nbytes(),
    "as_strided": lambda t: t.as_strided((2, 2), (1, 2), 1),
    "view dtype": lambda t: t.view(facula.uint8),
    "iteration": lambda t: list(t),
    "index": lambda t: t[0, 1],
    "mask": lambda t: t[t > 3],
    "assignment": lambda t: (t.__setitem__(0, 5), t)[1],
    "float": lambda t: float(t[0, 1]),
    "bool": lambda t: bool(t[0, 1]),
    "format": lambda t: f"{t[0, 1]:.2f}",
    "repr": repr,
    "equal": lambda t: facula.equal(t, t * 1),
    "copy": lambda t: __import__("copy").copy(t),
    "deepcopy": lambda t: __import__("copy").deepcopy(t),
    "parameter": lambda t: nn.Parameter(t, requires_grad=False) * 2,
    "share_memory_": lambda t: t.share_memory_(),
    "tensor": lambda t: facula.tensor([t[0, 0], t[1, 1]]),
    "stack": lambda t: facula.stack([t, t]),
    "as_tensor": lambda t: facula.as_tensor(t, dtype=facula.float64),
    "swap": lambda t: (facula.utils.swap_tensors(t, facula.ones(2)), t)[1],
    "sparse": lambda t: t.to_sparse(),
    "csr": lambda t: t.to_sparse_csr().values(),
    "coo": lambda t: facula.sparse_coo_tensor(facula.tensor([[0, 1, 2]]) * 1, t).to_dense(),
    "sort out": lambda t: facula.sort(t, out=(t.clone(), facula.zeros(3, 4, dtype=facula.int64) * 1)),
    "generator": lambda t: facula.Generator().set_state(facula.Generator().get_state() * 1).initial_seed(),
    "module": lambda t: nn.Identity()(t),
    "foreach": lambda t: facula._foreach_add([t, t], 1),
    "foreach_": lambda t: (facula._foreach_mul_([t], 2), t)[1],
    "swapaxes of a view": lambda t: t[:, 1:].swapaxes(0, 1).contiguous(),
}


# ---- writes between the call of an op and its run


def ways_to_write():
    from test_writes import IN_PLACE, OUT, in_place_cases, out_cases

    for op in IN_PLACE:
        for i, (target, write) in enumerate(in_place_cases(op)):
            yield f"{op.id}_:{i}", target, write
    for op in OUT:
        for i, (targets, write) in enumerate(out_cases(op)):
            for k in range(len(targets)):
                def write_to(t, write=write, targets=targets, k=k):
                    write([*targets[:k], t, *targets[k + 1:]])

                target = targets[k].logical_not() if targets[k].dtype == facula.bool else targets[k] + 1
                yield f"{op.id}.out{k}:{i}", target, write_to


def memory(t):
    return t.detach().resolve_conj().reshape(-1).contiguous().view(facula.uint8).numpy().tobytes() if t.numel() else b""


def writes():
    """Reads that wait must give what memory held at the call, however it is written afterwards."""
    failures, waited, cases = [], 0, 0
    warnings.simplefilter("ignore")
    facula.manual_seed(0)

    def check(name, target, write):
        nonlocal waited, cases
        owned = facula.empty_strided(target.shape, target.stride(), dtype=target.dtype).copy_(target.detach())
        before = memory(owned.clone())
        late, part = owned.clone(), owned.flatten()[:1].clone()
        waited += is_deferred(late)
        cases += 1
        write(owned)
        if memory(late) != before or memory(part) != before[:owned.element_size()]:
            failures.append(name)

    for name, target, write in ways_to_write():
        check(name, target, write)
    for name, write in WRITES.items():
        check(name, facula.arange(6.0).reshape(2, 3), write)
        check(name + " (of a deferred tensor)", facula.arange(6.0).reshape(2, 3) * 1, write)
    print(json.dumps({"cases": cases, "waited": waited, "failures": failures}))


def by_another_thread(t):
    thread = threading.Thread(target=lambda: t.mul_(2))
    thread.start()
    thread.join()


def by_backward(t):
    p = nn.Parameter(t)
    (p * 2).sum().backward()
    p.grad = facula.ones_like(p)
    facula.optim.SGD([p], lr=0.1).step()


def by_address(t):
    ctypes.memset(t.data_ptr(), 7, t.numel() * t.element_size())


def by_array(t):
    t.numpy()[...] = 9


def by_storage(t):
    t.untyped_storage().fill_(3)


def by_buffer(t):
    np.frombuffer(memoryview(t), np.float32)[...] = 4


def by_dlpack(t):
    facula.from_dlpack(t).fill_(4)


def by_running_statistics(t):
    F.batch_norm(facula.randn(5, 3), t[0], t[1], training=True)


def by_resize(t):
    t.untyped_storage().resize_(0)
    t.untyped_storage().resize_(64)


WRITES = {
    "view": lambda t: t.view(-1).mul_(2),
    "row": lambda t: t[0].fill_(9),
    "transposed": lambda t: t.t().add_(1),
    "alias": lambda t: t.detach().zero_(),
    "data": lambda t: t.data.zero_(),
    "setitem": lambda t: t.__setitem__((slice(None), 1), 5),
    "mask": lambda t: t.__setitem__(t > 1, 5),
    "index_put": lambda t: t.index_put_((facula.tensor([0]),), facula.tensor(3.0)),
    "copy_": lambda t: t.copy_(facula.ones(2, 3)),
    "out": lambda t: facula.mul(t, 2, out=t),
    "matmul out": lambda t: facula.mm(facula.ones(2, 2), facula.ones(2, 3), out=t),
    "set_data": lambda t: setattr(t, "data", facula.zeros(2, 3)),
    "set_": lambda t: t.set_(facula.zeros(2, 3)),
    "foreach": lambda t: facula._foreach_mul_([t], 2),
    "init": lambda t: nn.init.constant_(t, 2),
    "random": lambda t: t.normal_(),
    "thread": by_another_thread,
    "optimizer": by_backward,
    "address": by_address,
    "array": by_array,
    "storage": by_storage,
    "buffer": by_buffer,
    "dlpack": by_dlpack,
    "statistics": by_running_statistics,
    "resize": by_resize,
}
