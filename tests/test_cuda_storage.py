"""Storages and tensor types of CUDA devices, under the names of old programs."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

import facula


def run(program):
    source = "import facula as torch, pytest\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_storages():
    assert run(
        """
        x = torch.arange(3.0, device="cuda")
        s = x.storage()
        print(s.type(), s.is_cuda, s.tolist(), s[1], isinstance(s, torch.cuda.FloatStorage), isinstance(s, torch.FloatStorage))
        print(s.cpu().type(), isinstance(s.cpu(), torch.FloatStorage), s.cpu().cuda().tolist(), s.cuda() == s)
        made = torch.cuda.LongStorage([5, 6])
        print(made.dtype, made.device, made.tolist(), torch.cuda.HalfStorage(4).size(), torch.cuda.BoolStorage().size())
        made[0] = 7
        made.copy_(made.cpu().fill_(3))
        print(made.tolist(), made.clone().device, made.to(device="cpu").device)
        print(torch.cuda.FloatStorage(wrap_storage=x.untyped_storage()).data_ptr() == x.data_ptr())
        with pytest.raises(RuntimeError, match="FloatStorage: expected a storage on cuda, got one on cpu"):
            torch.cuda.FloatStorage(wrap_storage=torch.ones(2).untyped_storage())
        print(torch.ones(2).untyped_storage().cuda().device, x.untyped_storage().cuda(0).data_ptr() == x.data_ptr())
        with pytest.raises(RuntimeError, match="cuda: expected a CUDA device, got cpu"):
            x.untyped_storage().cuda("cpu")
        names = "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short".split()
        print(all(getattr(torch.cuda, f"{n}Storage")(2).dtype is getattr(torch, f"{n}Storage").dtype for n in names))
        """
    ) == [
        "torch.cuda.FloatStorage True [0.0, 1.0, 2.0] 1.0 True False", "torch.FloatStorage True [0.0, 1.0, 2.0] True",
        "torch.int64 cuda:0 [5, 6] 4 0", "[3, 3] cuda:0 cpu", "True", "cuda:0 True", "True",
    ]  # fmt: skip


def test_storages_shrink_under_tensors():
    """The memory stays the storage's, and comes back with it."""
    assert run(
        """
        x = torch.arange(8.0, device="cuda")
        view, address, held = x[:4], x.data_ptr(), torch.cuda.memory_allocated()
        x.untyped_storage().resize_(0)
        print(x.shape, x.data_ptr(), x.untyped_storage().nbytes(), torch.cuda.memory_allocated() == held)
        x.untyped_storage().resize_(32)
        x.fill_(3)
        print(view.tolist(), x.data_ptr() == address)
        del x, view
        print(torch.cuda.memory_allocated())
        """
    ) == ["torch.Size([8]) 0 0 True", "[3.0, 3.0, 3.0, 3.0] True", "0"]


def test_tensor_types():
    assert run(
        """
        x = torch.cuda.FloatTensor([1, 2])
        print(x, x.type(), torch.cuda.LongTensor(2, 3).shape, isinstance(x, torch.cuda.FloatTensor))
        """
    ) == ["tensor([1., 2.], device='cuda:0') torch.cuda.FloatTensor torch.Size([2, 3]) True"]


@pytest.mark.skipif(facula.cuda.is_available(), reason="needs a machine without a device")
def test_without_a_device():
    for make in (facula.cuda.FloatTensor, facula.cuda.FloatStorage):
        with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
            make(2)
