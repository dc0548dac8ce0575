"""Load models from local repositories, and checkpoints from the web.

`load` and `list` run a repository's hubconf.py and so need `source="local"`: Facula fetches no code.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib.util
import os
import re
import socket
import sys
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import facula
from facula import _C
from facula._serialization.replacing import replacing

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 128 * 1024
_chosen_dir = None


def _get_torch_home():
    default = os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, default))


def get_dir() -> str:
    """Return where downloads are kept: set_dir's argument, or $TORCH_HOME/hub, or $XDG_CACHE_HOME/torch/hub, or
    ~/.cache/torch/hub.

    >>> torch.hub.set_dir("models")
    >>> torch.hub.get_dir()
    'models'
    >>> torch.hub.set_dir("")  # what the environment says again
    """
    return _chosen_dir or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str) -> None:
    """Keep downloads in a directory from now on.

    Args:
        d: its path, in which ~ stands for the home directory; it is made when something is downloaded.

    >>> torch.hub.set_dir("models")
    >>> torch.hub.get_dir()
    'models'
    >>> torch.hub.set_dir("")  # what the environment says again
    """
    global _chosen_dir
    _chosen_dir = os.path.expanduser(d)


@contextlib.contextmanager
def _hubconf(repo_or_dir, source, what):
    """Give the module of a local hubconf.py; within the block, imports find the files beside it."""
    if source not in ("github", "local"):
        raise ValueError(f"hub.{what}: source must be {_C._one_of(source, ('github', 'local'))}")
    if source != "local":
        raise NotImplementedError(
            f"hub.{what}: no code is fetched; clone {repo_or_dir!r} and give its directory, source='local'"
        )
    path = os.path.join(repo_or_dir, MODULE_HUBCONF)
    spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, repo_or_dir)
    try:
        spec.loader.exec_module(module)
        missing = [name for name in getattr(module, VAR_DEPENDENCY, ()) if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeError(f"hub.{what}: {path} needs packages that are not installed: {', '.join(missing)}")
        yield module
    finally:
        sys.path.remove(repo_or_dir)


def _entry(module, name):
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"hub: cannot find callable {name} in {MODULE_HUBCONF}")
    return function


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: str = "check",
         verbose: bool = True, source: str = "github") -> builtins.list[str]:  # fmt: skip
    r"""Return the names of the entry points of a repository's hubconf.py: its public functions and classes.

    Args:
        github: the directory of the repository.
        source: "local"; "github", which would run code from the web, is refused.
        force_reload, skip_validation, trust_repo, verbose: what PyTorch's takes for downloads; without effect.

    Errors: NotImplementedError for source="github", ValueError for another word; FileNotFoundError without a hubconf.py;
    RuntimeError where a package of its list `dependencies` is not installed.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = "def add(a, b=1):\n    '''The sum.'''\n    return a + b\n"
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text(text)
    ...     torch.hub.list(folder, source="local")
    ['add']
    """
    with _hubconf(github, source, "list") as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: str = "check",
         source: str = "github") -> str | None:  # fmt: skip
    r"""Return the docstring of an entry point of a repository's hubconf.py.

    Args:
        github: the directory of the repository.
        model: the name of the entry point.
        source: "local"; "github", which would run code from the web, is refused.
        force_reload, skip_validation, trust_repo: what PyTorch's takes for downloads; without effect.

    Errors: NotImplementedError for source="github", ValueError for another word; RuntimeError for an unknown entry point.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = "def add(a, b=1):\n    '''The sum.'''\n    return a + b\n"
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text(text)
    ...     torch.hub.help(folder, "add", source="local")
    'The sum.'
    """
    with _hubconf(github, source, "help") as module:
        return _entry(module, model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: str = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> object:
    r"""Return what an entry point of a repository's hubconf.py returns: a model, as a rule.

    Args:
        repo_or_dir: the directory of the repository; imports find the files beside hubconf.py.
        model: the name of the entry point.
        args, kwargs: what it is called with.
        source: "local"; "github", which would run code from the web, is refused.
        trust_repo, force_reload, verbose, skip_validation: what PyTorch's takes for downloads; without effect.

    Errors: NotImplementedError for source="github", ValueError for another word; RuntimeError for an unknown entry point, and
    where a package of its list `dependencies` is not installed.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = "def add(a, b=1):\n    '''The sum.'''\n    return a + b\n"
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text(text)
    ...     torch.hub.load(folder, "add", 2, b=3, source="local")
    5
    """
    with _hubconf(repo_or_dir, source, "load") as module:
        return _entry(module, model)(*args, **kwargs)


class _Progress:
    """Print on standard error how much of a file has come. The line changes after a tenth of a megabyte at the earliest."""

    def __init__(self, name, total):
        self.name, self.total, self.bytes, self.shown = name, total, 0, -1

    def update(self, count):
        self.bytes += count
        tenths = self.bytes * 10 // 2**20
        # Writing after every chunk would slow the download down.
        if tenths != self.shown:
            self.shown = tenths
            of = f" of {self.total / 2**20:.1f}" if self.total else ""
            sys.stderr.write(f"\r{self.name}: {self.bytes / 2**20:.1f}{of} MB")

    def close(self):
        sys.stderr.write(f"\r{self.name}: {self.bytes / 2**20:.1f} MB\n")


def _progress_bar(name, total):
    """Return tqdm's bar, a widget in a notebook, where that package is installed; else a line of our own."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Progress(name, total)
    return tqdm(total=total or None, desc=name, unit="B", unit_scale=True, unit_divisor=1024)


def _patience():
    """Return the seconds to wait for a server that says nothing: `socket.setdefaulttimeout`'s, 60 where there is none."""
    given = socket.getdefaulttimeout()
    return 60.0 if given is None else given


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download to a file, which appears only when it is complete.

    Args:
        url: where from; what urllib takes, with file:// for a local file.
        dst: the path of the file, in which ~ stands for the home directory.
        hash_prefix: what the SHA-256 of the file must begin with, in hexadecimal; None for any.
        progress: whether to say on standard error how much has come.

    Errors: RuntimeError where the hash differs or the connection ended early; TimeoutError for a server that says nothing for
    60 seconds, or those of `socket.setdefaulttimeout`; what urllib raises.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source, copy = pathlib.Path(folder, "source"), pathlib.Path(folder, "copy")
    ...     _ = source.write_text("weights")
    ...     torch.hub.download_url_to_file(source.as_uri(), str(copy), hash_prefix="9a129", progress=False)
    ...     copy.read_text()
    'weights'
    """
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "facula.hub"}), timeout=_patience()) as response:
        total, received = int(response.headers.get("Content-Length") or 0), 0
        told = _progress_bar(os.path.basename(dst), total) if progress else None
        with replacing(dst) as file:
            while chunk := response.read(READ_DATA_CHUNK):
                digest.update(chunk)
                file.write(chunk)
                received += len(chunk)
                if told:
                    told.update(len(chunk))
            if told:
                told.close()
            # An error within the block leaves no file behind.
            if received < total:
                raise RuntimeError(f"download_url_to_file: expected {total} bytes, got {received} of them")
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(
                    f"download_url_to_file: expected SHA-256 {hash_prefix}..., got {digest.hexdigest()}"
                )


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: str | None = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Tensor]:
    """Load a checkpoint, which is downloaded the first time only.

    Args:
        url: where from.
        model_dir: the directory that keeps it; None for checkpoints/ of get_dir().
        map_location: the device that tensors are put on; see torch.load.
        progress: whether to say on standard error how much has come.
        check_hash: whether the file's name holds the beginning of its SHA-256, as in name-0123abcd.pth, which is compared then.
        file_name: the name to keep it under; None for the last part of the url.
        weights_only: whether only tensors and plain containers may be in it; see torch.load.

    Errors: RuntimeError where the hash differs; what urllib and torch.load raise.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"weight": torch.ones(2)}, f"{folder}/model.pt")
    ...     url = pathlib.Path(folder, "model.pt").as_uri()
    ...     torch.hub.load_state_dict_from_url(url, f"{folder}/kept", progress=False, weights_only=True)
    {'weight': tensor([1., 1.])}
    """
    model_dir = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(model_dir, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    if zipfile.is_zipfile(path) and _is_zip_of_one_file(path):
        path = _unpack(path, model_dir)
    return facula.load(path, map_location=map_location, weights_only=weights_only)


def _is_zip_of_one_file(path):
    """Return whether this is an ordinary zip around a checkpoint, as old links gave, rather than a checkpoint."""
    with zipfile.ZipFile(path) as archive:
        return len(archive.infolist()) == 1


def _unpack(path, folder):
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
        return archive.extract(member, folder)


def _check_module_exists(name):
    """Return whether a module of this name could be imported."""
    return importlib.util.find_spec(name) is not None


class _Bar:
    """Show progress without the package tqdm: one line of text, written when the bar is closed."""

    def __init__(self, iterable=None, total=None, disable=False, file=None, **settings):
        del settings
        self._iterable, self.total, self.disable, self.n = iterable, total, disable, 0
        self._file = file or sys.stderr

    def update(self, n=1):
        """Note that `n` more are done."""
        self.n += n

    def set_description(self, desc=None):
        """Do nothing: a bar without the package shows no description."""
        self.desc = desc

    def close(self):
        """Write how many were done."""
        if not self.disable:
            self.disable = True
            self._file.write(f"{self.n}{'' if self.total is None else f' of {self.total}'}\n")

    def __iter__(self):
        with self:
            for item in self._iterable:
                yield item
                self.update()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        from facula._shared.near_names import no_attribute

        raise no_attribute(__name__, name)
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = _Bar
    return tqdm
