"""facula.cuda.memory beyond counters: raw blocks, pools, what the allocator did, a program's own allocator."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

import facula


def run(program, **more):
    """What the program prints, as lines; it has `facula`, `cuda`, `memory` and `pytest`."""
    source = "import facula, pytest\nfrom facula import cuda\nfrom facula.cuda import memory\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_raw_blocks_are_of_the_caching_allocator():
    run("""
    before = cuda.memory_allocated()
    a = cuda.caching_allocator_alloc(1000)
    b = cuda.caching_allocator_alloc(5, device='cuda:0', stream=cuda.Stream())
    assert a and b and a != b and cuda.memory_allocated() == before + 1536
    cuda.caching_allocator_delete(a)
    assert cuda.caching_allocator_alloc(1000, stream=cuda.current_stream().cuda_stream) == a
    cuda.caching_allocator_delete(a)
    cuda.caching_allocator_delete(b)
    assert cuda.memory_allocated() == before and cuda.caching_allocator_alloc(0) == 0
    for bad in (lambda: cuda.caching_allocator_delete(a), lambda: cuda.caching_allocator_delete(7)):
        with pytest.raises(RuntimeError, match='caching_allocator_delete'):
            bad()
    with pytest.raises(ValueError, match='a size of at least 0, got -1'):
        cuda.caching_allocator_alloc(-1)
    with pytest.raises(TypeError, match='stream'):
        cuda.caching_allocator_alloc(1, stream='s')
    """)


def test_a_pool_keeps_its_memory_apart():
    run("""
    import threading
    x = facula.ones(100, device='cuda')
    pool = cuda.MemPool()
    assert pool.use_count() == 1 and pool.snapshot() == []
    with cuda.use_mem_pool(pool):
        a = facula.full((100,), 2.0, device='cuda')
        assert pool.use_count() == 2
        other = []
        thread = threading.Thread(target=lambda: other.append(facula.ones(100, device='cuda')))
        thread.start()
        thread.join()
        inner = cuda.MemPool()
        with cuda.use_mem_pool(inner):
            c = facula.ones(1 << 20, device='cuda')
        d = a + 1
    y = facula.ones(100, device='cuda')
    where = lambda t: [s['segment_pool_id'] for s in cuda.memory_snapshot()
                       if s['address'] <= t.data_ptr() < s['address'] + s['total_size']]
    assert where(a) == where(d) == [pool.id] and where(c) == [inner.id]
    assert where(x) == where(y) == where(other[0]) == [(0, 0)], (where(y), where(other[0]))
    assert len(pool.snapshot()) == 1 and pool.snapshot()[0]['allocated_size'] == 1024
    assert a.sum().item() == 200 and d.sum().item() == 300
    del a, d, c
    cuda.empty_cache()
    assert len(pool.snapshot()) == 1  # a pool that is there keeps it
    identity = pool.id
    del pool, inner
    cuda.empty_cache()
    assert cuda.memory_snapshot(identity) == [] and cuda.memory_reserved() == 2 << 20
    for bad in (lambda: cuda.MemPool(no_split=True), lambda: cuda.MemPool(allocator=1)):
        with pytest.raises(NotImplementedError, match='MemPool'):
            bad()
    """)


def test_what_the_allocator_did_has_pytorchs_layout(tmp_path):
    run(f"""
    import pickle
    facula.ones(3, device='cuda')
    memory._record_memory_history(max_entries=1000)
    def step():
        return facula.zeros(1 << 20, device='cuda')
    x = step()
    side = cuda.Stream()
    x.record_stream(side)
    del x
    cuda.synchronize()
    y = facula.ones(1000, device='cuda')
    with pytest.raises(facula.OutOfMemoryError):
        facula.empty(1 << 50, device='cuda')
    memory._dump_snapshot({str(tmp_path / "s.pickle")!r})
    memory._record_memory_history(None)
    s = pickle.load(open({str(tmp_path / "s.pickle")!r}, 'rb'))
    trace = s['device_traces'][0]
    actions = [e['action'] for e in trace]
    assert actions[:4] == ['segment_alloc', 'alloc', 'free_requested', 'free_completed'], actions
    assert 'oom' in actions and trace[actions.index('oom')]['size'] == 4 << 50 and 'device_free' in trace[actions.index('oom')]
    alloc = trace[1]
    assert alloc['size'] == 4 << 20 and trace[2]['addr'] == alloc['addr'] and trace[0]['size'] == 20 << 20
    assert any(f['name'] == 'step' and isinstance(f['line'], int) for f in alloc['frames']), alloc['frames']
    assert set(alloc) >= {{'action', 'addr', 'frames', 'size', 'stream', 'time_us', 'pool_id'}}
    times = [e['time_us'] for e in trace]
    assert times == sorted(times)
    live = [b for g in s['segments'] for b in g['blocks'] if b['state'] == 'active_allocated']
    assert any(b['address'] == y.data_ptr() and b['frames'] for b in live)
    count = len(memory._snapshot()['device_traces'][0])
    facula.ones(3, device='cuda')
    assert len(memory._snapshot()['device_traces'][0]) == count  # ended
    memory._record_memory_history(max_entries=5, clear_history=True)
    for i in range(10):
        facula.ones(3, device='cuda')
    assert len(memory._snapshot()['device_traces'][0]) == 5
    memory._record_memory_history('state', clear_history=True)
    facula.ones(3, device='cuda')
    assert memory._snapshot()['device_traces'] == [[]]
    """)


ALLOCATOR = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
static int taken, given;
static void* driver(const char* name) { return dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), name); }
void* take(ssize_t size, int device, void* stream) {
  unsigned long long memory = 0;
  if (size > 1 << 20 || ((int (*)(unsigned long long*, size_t))driver("cuMemAlloc_v2"))(&memory, size)) return NULL;
  ++taken;
  return (void*)memory;
}
void give(void* memory, ssize_t size, int device, void* stream) {
  ++given;
  ((int (*)(unsigned long long))driver("cuMemFree_v2"))((unsigned long long)memory);
}
int counted(void) { return taken * 1000 + given; }
"""


def test_a_program_brings_its_own_allocator(tmp_path):
    (tmp_path / "a.c").write_text(ALLOCATOR)
    run(f"""
    import ctypes, gc, subprocess
    (driver,) = {{line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line or 'emulated_cuda' in line}} or ['']
    subprocess.run(['cc', '-shared', '-fPIC', f'-DLIBRARY="{{driver}}"', {str(tmp_path / "a.c")!r},
                    '-o', {str(tmp_path / "a.so")!r}, '-ldl'], check=True)
    own = memory.CUDAPluggableAllocator({str(tmp_path / "a.so")!r}, 'take', 'give')
    counted = lambda: divmod(ctypes.CDLL({str(tmp_path / "a.so")!r}).counted(), 1000)
    with pytest.raises(TypeError, match='CUDAPluggableAllocator'):
        memory.change_current_allocator(3)
    memory.change_current_allocator(own)
    x = facula.arange(1000.0, device='cuda')
    y = x * 2
    y.record_stream(cuda.Stream())
    assert y.sum().item() == 999000 and counted()[0] >= 2, counted()
    with pytest.raises(facula.OutOfMemoryError, match="the program's allocator gives no memory"):
        facula.empty(1 << 20, device='cuda')
    del x, y
    taken, given = counted()
    assert taken - given <= 2, (taken, given)  # what kernels keep for themselves
    assert cuda.memory_allocated() == 0
    with pytest.raises(RuntimeError, match='changed already'):
        memory.change_current_allocator(own)
    """)
    run(f"""
    x = facula.ones(3, device='cuda')
    with pytest.raises(RuntimeError, match='to be called before memory is taken'):
        memory.change_current_allocator(memory.CUDAPluggableAllocator({str(tmp_path / "a.so")!r}, 'take', 'give'))
    """)


@pytest.mark.skipif(facula.cuda.is_available(), reason="there is a device")
def test_without_a_device():
    with pytest.raises((AssertionError, RuntimeError), match="no CUDA device"):
        facula.cuda.caching_allocator_alloc(3)
    assert facula.cuda.memory._snapshot()["device_traces"] == []
