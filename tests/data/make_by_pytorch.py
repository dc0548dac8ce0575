"""Writes by_pytorch_{zip,protocol5,legacy}.pt: one object in the formats of PyTorch's `torch.save`.

Needs PyTorch 2.13, and is run by hand: `python tests/data/make_by_pytorch.py`. The old format names storages by where they lay in
memory, so its bytes differ from run to run; the other two files come out the same.
"""

import collections
from pathlib import Path

DTYPES = "uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 bool complex64 complex128".split()


def saved():
    """What every format can hold."""
    import torch

    base = torch.arange(6.0).reshape(2, 3)
    found = {"base": base, "row": base[1], "column": base[:, 1], "p": torch.nn.Parameter(torch.ones(2))}
    found |= {"words": [1, 2.5, True, None, b"\xff", 2**70, (1,)], "od": collections.OrderedDict(a=1)}
    found |= {"size": torch.Size([2]), "dtype": torch.float16, "device": torch.device("cpu")}
    return found | {dtype: torch.tensor([0, 1, 2]).to(getattr(torch, dtype)) for dtype in DTYPES}


def main():
    import torch

    home = Path(__file__).parent
    torch.save(saved(), home / "by_pytorch_legacy.pt", _use_new_zipfile_serialization=False)
    newer = saved() | {"uint16": torch.tensor([0, 1, 2]).to(torch.uint16), "meta": torch.empty(2, 3, device="meta")}
    torch.save(newer, home / "by_pytorch_zip.pt")
    torch.save(newer, home / "by_pytorch_protocol5.pt", pickle_protocol=5)


if __name__ == "__main__":
    main()
