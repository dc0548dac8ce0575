"""Pinned memory of the host: copies that need not wait, when blocks are used again, statistics, data loaders."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

import facula

LAZY = {"FACULA_EMULATED_MODE": "lazy"}  # nothing runs before the host waits; a GPU passes, too


def run(program, **more):
    """Return what the program prints, as lines; it has `facula`, `cuda`, `emulated` and `pytest`."""
    source = "import facula, pytest\nfrom facula import cuda\nemulated = cuda.is_emulated()\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_pinned_tensors_are_tensors():
    run("""
    x = facula.arange(24.0).reshape(2, 3, 4).transpose(0, 2)
    p = x.pin_memory()
    assert p.is_pinned() and not x.is_pinned() and p.pin_memory() is p and facula.equal(p, x) and p.stride() == x.stride()
    assert p[1:].is_pinned() and p.untyped_storage().is_pinned() and not p.clone().is_pinned()
    assert p.device.type == 'cpu' and facula.equal(p.cuda(), x.cuda()) and not p.cuda().is_pinned()
    assert p.numpy().shape == (4, 3, 2) and p.detach().is_pinned() and p.pin_memory('cuda') is p
    storage = x.untyped_storage().pin_memory()
    assert storage.is_pinned() and storage.pin_memory() is storage and bytes(storage) == bytes(x.untyped_storage())
    typed = facula.storage.TypedStorage([1.0, 2.0]).pin_memory()
    assert typed.is_pinned() and typed.pin_memory() is typed and typed.tolist() == [1.0, 2.0]
    assert facula.empty(0, 4).pin_memory().shape == (0, 4)
    z = facula.tensor([1 + 2j]).conj()
    assert facula.equal(z.pin_memory(), z) and facula.equal(z.cuda().cpu(), z)
    w = facula.ones(3, requires_grad=True)
    (w.pin_memory() * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    for bad in (lambda: x.cuda().pin_memory(), lambda: x.to('meta').pin_memory(), lambda: x.is_pinned('cpu'),
                lambda: x.pin_memory('cpu'), lambda: x.untyped_storage().pin_memory('cpu')):
        with pytest.raises(RuntimeError, match='pin'):
            bad()
    """)


def test_factories_pin():
    run("""
    f = facula
    like = f.zeros(2, 3, dtype=f.float64)
    for t in (f.empty(2, pin_memory=True), f.zeros(2, pin_memory=True), f.full((2,), 3, pin_memory=True),
              f.rand(2, pin_memory=True), f.randint(5, (2,), pin_memory=True), f.arange(3, pin_memory=True),
              f.tensor([1, 2], pin_memory=True), f.ones_like(like, pin_memory=True), like.new_empty(2, pin_memory=True),
              like.new_tensor([2], pin_memory=True), f.empty_strided((2, 2), (1, 2), pin_memory=True)):
        assert t.is_pinned(), t
    assert f.tensor([1.0, 2.0], pin_memory=True).tolist() == [1, 2] and not f.empty(2, pin_memory=False).is_pinned()
    assert f.zeros(2, pin_memory=True, requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match='pin_memory: only dense tensors of the CPU'):
        f.zeros(2, pin_memory=True, device='cuda')
    """)


def test_copies_from_pinned_memory_need_not_wait():
    run(
        """
        n = 1 << 16
        p = facula.arange(float(n)).pin_memory()
        there = p.to('cuda', non_blocking=True)
        half = p.to('cuda', facula.float16, True)
        into = facula.empty(n, device='cuda').copy_(p, non_blocking=True)
        if emulated:  # nothing has run yet: the device reads what is there when it comes to it
            p += 1
        first = 1.0 if emulated else 0.0
        assert there[0].item() == first and into[0].item() == first and half[0].item() == first
        q = facula.zeros(n).pin_memory()
        waited = q.to('cuda')
        q += 1
        assert waited.sum().item() == 0  # a copy that was not told so has been made
        pageable = facula.zeros(n)
        there = pageable.to('cuda', non_blocking=True)
        pageable += 1
        assert there.sum().item() == 0
        """,
        **LAZY,
    )


def test_copies_to_pinned_memory_need_not_wait():
    run(
        """
        x = facula.full((1 << 16,), 7.0, device='cuda')
        back = facula.zeros(1 << 16, pin_memory=True)
        back.copy_(x, non_blocking=True)
        host = x.to('cpu', non_blocking=True)
        narrow = x.reshape(256, 256).t().to('cpu', facula.int16, non_blocking=True)
        assert host.is_pinned() and narrow.is_pinned() and not x.cpu().is_pinned()
        del x
        if emulated:
            again = facula.full((1 << 16,), 8.0, device='cuda').to('cpu', non_blocking=True)
            again.zero_()
            cuda.synchronize()
            assert again[0] == 8  # it was written after that
        cuda.synchronize()
        assert (back == 7).all() and (host == 7).all() and (narrow == 7).all() and narrow.dtype == facula.int16
        strided = facula.zeros(4, 4, pin_memory=True).t()
        strided.copy_(facula.arange(16.0, device='cuda').reshape(4, 4), non_blocking=True)
        assert strided[1].tolist() == [4, 5, 6, 7]
        y = facula.arange(4.0, device='cuda')
        for target in (facula.zeros(4), facula.zeros(4, dtype=facula.int64), facula.zeros(8)[::2]):
            assert target.copy_(y, non_blocking=True).tolist() == [0, 1, 2, 3]  # memory that is not pinned is waited for
        s = y.untyped_storage().to('cpu', non_blocking=True)
        cuda.synchronize()
        assert s.is_pinned() and bytes(s) == y.cpu().numpy().tobytes()
        """,
        **LAZY,
    )


@pytest.mark.parametrize("more", [LAZY, {"FACULA_EMULATED_JITTER": "3000"}])
def test_a_block_is_used_again_when_streams_are_done_with_it(more):
    run(
        """
        import os
        lazy = emulated and os.environ.get('FACULA_EMULATED_MODE') == 'lazy'
        n, side, kept = 5000, cuda.Stream(), []
        for i in range(20):
            p = facula.full((n,), float(i)).pin_memory()
            with cuda.stream(side if i % 2 else cuda.current_stream()):
                kept.append(p.to('cuda', non_blocking=True))
            address = p.data_ptr()
            del p
            q = facula.full((n,), -1.0).pin_memory()
            assert not lazy or q.data_ptr() != address
            del q
        cuda.synchronize()
        assert [t.mean().item() for t in kept] == list(range(20))
        stats = cuda.host_memory_stats()
        assert stats['active_requests.current'] == 0 and stats['allocations.current'] >= 1, stats
        p = facula.empty(n, pin_memory=True)
        address = p.data_ptr()
        del p
        assert facula.empty(n, pin_memory=True).data_ptr() == address  # nobody used it: at once
        """,
        **more,
    )


def test_statistics_count_powers_of_two():
    run("""
    assert cuda.host_memory_stats()['allocated_bytes.current'] == 0
    a = facula.empty(1000, dtype=facula.uint8, pin_memory=True)
    b = facula.empty(1024, dtype=facula.uint8, pin_memory=True)
    del a
    c = facula.empty(600, dtype=facula.uint8, pin_memory=True)
    s = cuda.host_memory_stats()
    assert s['allocated_bytes.current'] == s['active_bytes.current'] == 2048 and s['num_host_alloc'] == 2, s
    assert s['allocations.current'] == 2 and s['active_requests.allocated'] == 3 and s['active_requests.freed'] == 1
    assert s['host_alloc_time.count'] == 2 and s['host_alloc_time.max'] >= s['host_alloc_time.avg'], s
    del b
    cuda.reset_peak_host_memory_stats()
    cuda.reset_accumulated_host_memory_stats()
    n = cuda.host_memory_stats_as_nested_dict()
    assert n['active_bytes'] == {'current': 1024, 'peak': 1024, 'allocated': 0, 'freed': 0}, n
    assert n['allocated_bytes']['peak'] == 2048 and n['num_host_alloc'] == 0
    facula._C._host_emptyCache()
    s = cuda.host_memory_stats()
    assert s['allocated_bytes.current'] == 1024 and s['num_host_free'] == 1
    """)


def test_too_much_pinned_memory_is_an_error_and_what_is_kept_is_given_back_first():
    run("""
    if emulated:
        with pytest.raises(facula.OutOfMemoryError, match='pin_memory: '):
            facula.UntypedStorage(8).pin_memory(), facula._C._pinned_empty_like(facula.zeros(1).expand(1 << 45))
        assert facula.ones(3).pin_memory().is_pinned()
    """)


LOADER = """
import warnings
from facula.utils.data import DataLoader, Dataset
warnings.simplefilter('error')

class Custom:
    def __init__(self, x):
        self.x = x
    def pin_memory(self):
        return Custom(self.x.pin_memory())

class Data(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        if i == FAIL:
            raise ValueError('sample 33')
        return {'x': facula.full((30,), float(i)), 'y': (i, str(i))}
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_pins_its_batches(workers):
    lines = run(LOADER.replace("FAIL", "33") + textwrap.dedent(f"""
    import threading
    loader = DataLoader(Data(), batch_size=4, pin_memory=True, num_workers={workers}, persistent_workers={workers} > 0)
    for epoch in range(2):
        seen = 0
        with pytest.raises(ValueError, match='sample 33'):
            for batch in loader:
                assert batch['x'].is_pinned() and batch['y'][0].is_pinned() and batch['y'][1][0] == str(seen)
                there = batch['x'].to('cuda', non_blocking=True)
                del batch
                assert there[:, 0].tolist() == [seen, seen + 1, seen + 2, seen + 3]
                seen += 4
        assert seen == 32
    print(sum(t.name == 'facula_pin' for t in threading.enumerate()))
    del loader
    import gc
    gc.collect()  # the exception knew the iterator
    print(sum(t.name == 'facula_pin' for t in threading.enumerate()))
    """))  # fmt: skip
    assert lines == ([str(int(workers > 0)), "0"])


def test_a_loader_that_pins_reports_dead_workers_and_what_cannot_be_pinned():
    run(LOADER.replace("FAIL", "-1") + textwrap.dedent("""
    import os, signal
    it = iter(DataLoader(Data(), batch_size=4, pin_memory=True, num_workers=2, prefetch_factor=1))
    next(it)
    for worker in it._workers:
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match='SIGKILL'):
        for _ in it:
            pass
    def collate(samples):
        return Custom(None)
    with pytest.raises(AttributeError, match='pins memory'):
        next(iter(DataLoader(Data(), batch_size=4, pin_memory=True, num_workers=1, collate_fn=collate)))
    with pytest.raises(RuntimeError, match='no batch came within 0.2'):
        import time
        slow = lambda samples: time.sleep(2)
        next(iter(DataLoader(Data(), pin_memory=True, num_workers=1, collate_fn=slow, timeout=0.2)))
    """))  # fmt: skip


def test_without_a_device_nothing_can_be_pinned():
    if facula.cuda.is_available():
        pytest.skip("there is a device")
    for pin in (lambda: facula.ones(3).pin_memory(), lambda: facula.empty(3, pin_memory=True),
                lambda: facula.tensor([3], pin_memory=True), lambda: facula.UntypedStorage(3).pin_memory()):  # fmt: skip
        with pytest.raises(RuntimeError, match="pin_memory: there is no device that could use pinned memory"):
            pin()
    assert not facula.ones(3).is_pinned() and facula.cuda.host_memory_stats() == {}
    assert facula.empty(3, pin_memory=True, device="meta").is_meta and facula.ones(3).to("cpu", non_blocking=True) is not None
