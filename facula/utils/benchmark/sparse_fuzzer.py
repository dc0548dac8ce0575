"""Make random sparse inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula

from .fuzzer import FuzzedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """Make a sparse tensor of layout COO whose size follows from parameters.

    Args:
        name, size, min_elements, max_elements, dim_parameter, dtype, cuda: as of `FuzzedTensor`.
        sparse_dim: the name of the parameter that says how many of the dimensions have indices; default: all.
        nnz: taken and, as in PyTorch, without effect: the density says it.
        density: the name of a parameter: indices per length, so that a size of (10, 20) and 0.5 make 15.
        coalesced: the name of a parameter: whether each index is there once; otherwise all are there twice.

    >>> from facula.utils.benchmark import FuzzedParameter, FuzzedSparseTensor, Fuzzer
    >>> fuzzer = Fuzzer([FuzzedParameter("n", 4, 8, "uniform")], [FuzzedSparseTensor("x", size=("n", "n"))], seed=0)
    >>> [tensors["x"].layout for tensors, properties, parameters in fuzzer.take(2)]
    [torch.sparse_coo, torch.sparse_coo]
    """

    def __init__(
        self,
        name: str,
        size: Sequence[int | str],
        min_elements: Any = None,
        max_elements: Any = None,
        dim_parameter: Any = None,
        sparse_dim: Any = None,
        nnz: Any = None,
        density: Any = None,
        coalesced: Any = None,
        dtype: facula.dtype = facula.float32,
        cuda: bool = False,
    ) -> None:
        super().__init__(
            name, size, min_elements=min_elements, max_elements=max_elements,
            dim_parameter=dim_parameter, dtype=dtype, cuda=cuda,
        )  # fmt: skip
        self._sparse_dim, self._density, self._coalesced = sparse_dim, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(size: Sequence[int], dtype: facula.dtype, sparse_dim: Any, nnz: Any,
                                  is_coalesced: Any) -> Any:  # fmt: skip
        """Return a tensor with `nnz` random indices and random values.

        Args:
            size, dtype: of the tensor.
            sparse_dim: how many of the dimensions have indices.
            nnz: how many indices, perhaps some of them equal.
            is_coalesced: whether equal indices are joined; otherwise all are there twice.

        Errors: ValueError for indices into a dimension of size 0.

        >>> made = torch.utils.benchmark.FuzzedSparseTensor.sparse_tensor_constructor((4, 4), torch.float32, 2, 3, False)
        >>> made._nnz()
        6
        """
        if nnz and 0 in size[:sparse_dim]:
            raise ValueError(f"FuzzedSparseTensor: no index fits a size of 0, got {nnz} of them for {tuple(size)}")
        lengths = facula.tensor(size[:sparse_dim], dtype=facula.float64).unsqueeze(1)
        indices = (facula.rand(sparse_dim, nnz, dtype=facula.float64) * lengths).long()
        values = FuzzedTensor.default_tensor_constructor((nnz, *size[sparse_dim:]), dtype)
        if not is_coalesced:
            values = facula.cat([values, FuzzedTensor.default_tensor_constructor(values.shape, dtype)])
            indices = facula.cat([indices, indices], 1)
        made = facula.sparse_coo_tensor(indices, values, tuple(size))
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, params, state):
        size, _, _ = self._get_size_and_steps(params)
        density = params[self._density] if self._density else 0.5
        if not 0 <= density <= 1:
            raise ValueError(f"FuzzedSparseTensor: the density of {self._name!r} must be from 0 to 1, got {density}")
        sparse_dim = min(int(params[self._sparse_dim]), len(size)) if self._sparse_dim else len(size)
        coalesced = bool(params[self._coalesced]) if self._coalesced else True
        tensor = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, math.ceil(sum(size) * density), coalesced)
        tensor = tensor.cuda() if self._cuda else tensor
        properties = {
            "numel": tensor.numel(), "shape": tensor.size(), "is_coalesced": tensor.is_coalesced(), "density": density,
            "sparsity": 1.0 - density, "sparse_dim": tensor.sparse_dim(), "dense_dim": tensor.dense_dim(),
            "is_hybrid": tensor.dense_dim() > 0, "dtype": str(self._dtype),
        }  # fmt: skip
        return tensor, properties
