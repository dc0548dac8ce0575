"""Define facts about the version under PyTorch's names."""

from facula.torch_version import __version__ as __version__

debug = False
cuda = None  # version of the CUDA toolkit built against: Facula needs none
hip = rocm = None
xpu = None
git_version = "unknown"
