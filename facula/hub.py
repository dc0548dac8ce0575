"""Models from local repositories, and checkpoints from the web.

`load` and `list` run a repository's hubconf.py and so need `source="local"`: Facula fetches no code.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import facula
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
    """Where downloads are kept: set_dir's argument, or $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    return _chosen_dir or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str) -> None:
    """Keeps downloads in directory `d`."""
    global _chosen_dir
    _chosen_dir = os.path.expanduser(d)


@contextlib.contextmanager
def _hubconf(repo_or_dir, source, what):
    """The module of a local hubconf.py; within the block, imports find the files beside it."""
    if source not in ("github", "local"):
        raise ValueError(f"hub.{what}: expected source 'github' or 'local', got {source!r}")
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
         verbose: bool = True, source: str = "github") -> list[str]:  # fmt: skip
    """The entry points of a repository's hubconf.py."""
    with _hubconf(github, source, "list") as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: str = "check",
         source: str = "github") -> str | None:  # fmt: skip
    """The docstring of an entry point."""
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
    """What entry point `model` of a repository's hubconf.py returns for these arguments."""
    with _hubconf(repo_or_dir, source, "load") as module:
        return _entry(module, model)(*args, **kwargs)


class _Progress:
    """A line on standard error that says how much of a file has come; a tenth of a megabyte at least between its changes."""

    def __init__(self, name):
        self.name, self.bytes, self.shown = name, 0, -1

    def add(self, count, total):
        self.bytes += count
        tenths = self.bytes * 10 // 2**20
        if tenths != self.shown:
            self.shown = tenths
            of = f" of {total / 2**20:.1f}" if total else ""
            sys.stderr.write(f"\r{self.name}: {self.bytes / 2**20:.1f}{of} MB")

    def end(self):
        sys.stderr.write(f"\r{self.name}: {self.bytes / 2**20:.1f} MB\n")


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads `url` to the file `dst`, which appears only when complete.

    Args:
        hash_prefix: what the SHA-256 of the file must begin with.
        progress: whether to say on standard error how much has come.
    Raises:
        RuntimeError: the hash differs, or the connection ended early.
    """
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    told = _Progress(os.path.basename(dst)) if progress else None
    with urlopen(Request(url, headers={"User-Agent": "facula.hub"})) as response:
        total, received = int(response.headers.get("Content-Length") or 0), 0
        with replacing(dst) as file:
            while chunk := response.read(READ_DATA_CHUNK):
                digest.update(chunk)
                file.write(chunk)
                received += len(chunk)
                if told:
                    told.add(len(chunk), total)
            if told:
                told.end()
            if received < total:
                raise RuntimeError(f"download_url_to_file: expected {total} bytes, got {received}")
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
    """Loads the checkpoint at `url`, downloaded once into `model_dir` (default: checkpoints/ of get_dir()).

    Args:
        check_hash: the file's name holds the beginning of its SHA-256, as in name-0123abcd.pth; check it.
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
    """Whether this is an ordinary zip around a checkpoint, as old links gave, rather than a checkpoint."""
    with zipfile.ZipFile(path) as archive:
        return len(archive.infolist()) == 1


def _unpack(path, folder):
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
        return archive.extract(member, folder)


def _check_module_exists(name):
    """Whether a module of this name could be imported."""
    return importlib.util.find_spec(name) is not None


class _Bar:
    """A bar of progress without the package tqdm: one line of text, written when it is closed."""

    def __init__(self, iterable=None, total=None, disable=False, file=None, **settings):
        del settings
        self._iterable, self.total, self.disable, self.n = iterable, total, disable, 0
        self._file = file or sys.stderr

    def update(self, n=1):
        """`n` more are done."""
        self.n += n

    def set_description(self, desc=None):
        """A bar without the package shows no description."""
        self.desc = desc

    def close(self):
        """Writes how many were done."""
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
        raise AttributeError(f"module 'torch.hub' has no attribute {name!r}")
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = _Bar
    return tqdm
