"""Read and run TorchScript archives (`torch.jit.save`): `facula.jit.load`.

The source in an archive is data: it is parsed, checked against what TorchScript's source may hold, and walked (`walker.py`);
nothing of it reaches Python's compiler.
"""

from .archive import Archive
from .errors import ScriptError
