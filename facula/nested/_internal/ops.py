"""Return the parts of a nested tensor, for programs that make another of the same structure."""

__all__ = ["extract_kwargs"]


def extract_kwargs(arg):
    """Return the arguments with which `NestedTensor` makes a tensor of other values that lies like this one."""
    return {
        "offsets": arg.offsets(), "lengths": arg.lengths(), "_metadata_cache": arg._metadata_cache,
        "_ragged_idx": arg._ragged_idx,
    }  # fmt: skip
