"""Compile extensions in C++ that are written for PyTorch's C++ interface against Facula's headers
(docs/cpp_extensions.md).

`load` and `load_inline` compile and load at once, `CppExtension` with `BuildExtension` is for setup.py. There is no nvcc here:
CUDA sources are an error, and `CUDAExtension` with C++ sources only is a `CppExtension`.

Long because PyTorch has the public functions and what they need in one file of this name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.on_demand import _on_demand

from . import _cpp_build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "get_default_build_root",
    "check_compiler_ok_for_platform",
    "check_compiler_is_gcc",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "BuildExtension",  # noqa: F822
    "CppExtension",
    "CUDAExtension",
    "include_paths",
    "library_paths",
    "load",
    "load_inline",
    "is_ninja_available",
    "verify_ninja_availability",
    "CUDA_HOME",
    "ROCM_HOME",
]


# ---- Which C++ compiler there is, and whether it can compile extensions


def get_cxx_compiler() -> str:
    """Return the command of the C++ compiler: the environment's CXX, else c++.

    >>> import os
    >>> torch.utils.cpp_extension.get_cxx_compiler() == (os.environ.get("CXX") or "c++")
    True
    """
    return os.environ.get("CXX") or "c++"


def _version_text(compiler):
    """Return what the compiler says of itself, or None where it cannot be run."""
    try:
        command = [*shlex.split(compiler), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def check_compiler_ok_for_platform(compiler: Any) -> bool:
    """Return True if the command `compiler` can be run and is GCC or Clang.

    >>> torch.utils.cpp_extension.check_compiler_ok_for_platform("there-is-none")
    False
    """
    text = _version_text(compiler)
    return text is not None and re.search(r"clang|gcc|g\+\+|Free Software Foundation", text) is not None


def check_compiler_is_gcc(compiler: Any) -> bool:
    """Return True if the command `compiler` can be run and is GCC.

    >>> torch.utils.cpp_extension.check_compiler_is_gcc("there-is-none")
    False
    """
    text = _version_text(compiler)
    return text is not None and "Free Software Foundation" in text and "clang" not in text


def get_compiler_abi_compatibility_and_version(compiler: Any) -> Any:
    """Return whether the compiler can compile extensions (GCC 11 or Clang 14 on; C++20 is needed), and its version.

    >>> torch.utils.cpp_extension.get_compiler_abi_compatibility_and_version("there-is-none")
    (False, '0.0.0')
    """
    text = _version_text(compiler)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text or "")
    version = facula.torch_version.TorchVersion(found[0] if found else "0.0.0")
    least = 11 if check_compiler_is_gcc(compiler) else 14
    return bool(found) and check_compiler_ok_for_platform(compiler) and int(found[1]) >= least, version


def is_ninja_available() -> bool:
    """Return True if the command ninja can be run. It is not needed here.

    >>> import shutil
    >>> torch.utils.cpp_extension.is_ninja_available() == (shutil.which("ninja") is not None)
    True
    """
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise RuntimeError unless the command ninja can be run.

    >>> if torch.utils.cpp_extension.is_ninja_available():
    ...     torch.utils.cpp_extension.verify_ninja_availability()
    """
    if not is_ninja_available():
        raise RuntimeError("verify_ninja_availability: ninja is needed (pip install ninja), got none on the PATH")


#: where compilers for devices are: never here, since Facula compiles its kernels when they are first used
CUDA_HOME = ROCM_HOME = CUDNN_HOME = SYCL_HOME = None
IS_HIP_EXTENSION = False
SUBPROCESS_DECODE_ARGS = ()

_STANDARD = "-std=c++20"
_EARLIER = tuple(f"-std={dialect}++{year}" for dialect in ("c", "gnu") for year in ("11", "14", "17"))
_MODULE_SUFFIX = ".so"

# its base class is setuptools', which only setup.py needs
__getattr__ = _on_demand(__name__, BuildExtension="facula.utils._build_extension")


# ---- where headers and libraries are


def _package():
    """Return the folder that holds include/ and lib/: the package, or of a checkout the folder of the build."""
    home = os.path.dirname(os.path.abspath(facula.__file__))
    if not os.path.isdir(os.path.join(home, "include")):
        home = os.path.dirname(os.path.realpath(facula._C.__file__))
    if not os.path.isdir(os.path.join(home, "include")):
        raise RuntimeError(f"cpp_extension: this build of Facula has no headers, looked for include in {home}")
    return home


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the folders of headers for the compiler, as a list.

    Args:
        device_type: "cpu" or "cuda", which makes no difference here; NotImplementedError for others.
        torch_include_dirs: False for none of them.

    >>> import os
    >>> all(os.path.isdir(path) for path in torch.utils.cpp_extension.include_paths())
    True
    """
    if device_type not in ("cpu", "cuda"):
        raise NotImplementedError(f"include_paths: device_type must be {_C._one_of(device_type, ('cpu', 'cuda'))}")
    include = os.path.join(_package(), "include")
    return [os.path.join(include, "compat"), include] if torch_include_dirs else []


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: Any = None) -> list[str]:
    """Return the folder of libfacula, as a list.

    Args:
        device_type: "cpu" or "cuda", which makes no difference here; NotImplementedError for others.
        torch_include_dirs: False for an empty list.
        cross_target_platform: must be None: extensions are built for this platform.

    >>> len(torch.utils.cpp_extension.library_paths())
    1
    """
    if device_type not in ("cpu", "cuda"):
        raise NotImplementedError(f"library_paths: device_type must be {_C._one_of(device_type, ('cpu', 'cuda'))}")
    if cross_target_platform is not None:
        raise NotImplementedError(f"library_paths: extensions are built for this platform, got {cross_target_platform!r}")
    return [os.path.join(_package(), "lib")] if torch_include_dirs else []


def _pybind_paths():
    """Return the headers of the package pybind11, where it is installed; `torch/extension.h` says what to do where it is
    not."""
    if importlib.util.find_spec("pybind11") is None:
        return []
    return [importlib.import_module("pybind11").get_include()]


def get_default_build_root() -> str:
    """Return the folder below which `load` makes those of extensions: TORCH_EXTENSIONS_DIR, else one in the user's cache.

    >>> import os
    >>> os.path.isabs(torch.utils.cpp_extension.get_default_build_root())
    True
    """
    if given := os.environ.get("TORCH_EXTENSIONS_DIR"):
        return given
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "facula", "extensions")


# ---- setup.py


def CppExtension(name: str, sources: str | Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Return a `setuptools.Extension` with Facula's headers and library.

    Args:
        name: of the module.
        sources: paths of C++ sources.
        args, kwargs: further arguments of that class; `extra_compile_args` may be a dict with the key "cxx".

    >>> try:
    ...     extension = torch.utils.cpp_extension.CppExtension("example", ["example.cpp"])
    ...     print(extension.name, extension.language)
    ... except ImportError:  # setuptools is not there
    ...     print("example c++")
    example c++
    """
    try:
        import setuptools
    except ImportError as error:
        raise ImportError(f"CppExtension: setuptools is needed (pip install setuptools): {error}") from error

    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *include_paths(), *_pybind_paths()]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", ()), *library_paths()]
    kwargs["runtime_library_dirs"] = [*kwargs.get("runtime_library_dirs", ()), *library_paths()]
    kwargs["libraries"] = [*kwargs.get("libraries", ()), "facula"]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


def CUDAExtension(name: str, sources: str | Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """Return a `setuptools.Extension` with Facula's headers and library, as CppExtension makes: only C++ can be compiled here.

    Args:
        name: of the module.
        sources: paths of C++ sources; RuntimeError for those of nvcc (.cu).
        args, kwargs: further arguments of the class.

    >>> torch.utils.cpp_extension.CUDAExtension("example", ["example.cu"])
    Traceback (most recent call last):
        ...
    RuntimeError: CUDAExtension: sources in C++ are expected, there is no nvcc, got 'example.cu'
    """
    refuse_cuda("CUDAExtension", sources)
    kwargs.pop("dlink", None)
    return CppExtension(name, sources, *args, **kwargs)


def refuse_cuda(function: Callable[..., Any], sources: str | Sequence[str]) -> None:
    """Raise RuntimeError where one of the sources is for a compiler of devices."""
    for source in sources:
        if os.fspath(source).endswith((".cu", ".cuh", ".hip", ".sycl")):
            raise RuntimeError(f"{function}: sources in C++ are expected, there is no nvcc, got {os.fspath(source)!r}")


# ---- load


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compile sources and load them.

    What was compiled is kept, in a folder of the user's cache named after sources and flags; only what changed is compiled
    again. Processes that load the same extension wait for each other.

    Args:
        name: of the extension; sources see it as TORCH_EXTENSION_NAME.
        sources: path of a C++ source, or a list of them.
        extra_cflags, extra_ldflags: flags for the compiler, which come last, and for the linker.
        extra_cuda_cflags, extra_sycl_cflags: for sources that cannot be compiled here, so never used.
        extra_include_paths: folders of headers.
        build_directory: the folder to build in.
        verbose: prints the commands and what the compiler says.
        with_cuda, with_sycl: True is a RuntimeError.
        is_python_module: False for a library that only registers operators.
        is_standalone: makes a program instead, and returns its path.
        keep_intermediates: False removes the objects afterwards.

    Returns:
        The module; None with `is_python_module=False`.

    Raises:
        RuntimeError: with the compiler's own words, where a source does not compile.
        FileNotFoundError: a source is not there.

    >>> torch.utils.cpp_extension.load("example", ["not_there.cpp"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    FileNotFoundError: load: a source is a file, got '...not_there.cpp'
    """
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    sources = [os.path.abspath(os.fspath(source)) for source in sources]
    _check("load", name, sources, with_cuda, with_sycl)
    flags = _Flags(name, extra_cflags, extra_ldflags, extra_include_paths, is_standalone)
    if build_directory is None:
        build_directory = os.path.join(get_default_build_root(), f"{name}-{flags.key(sources)}")
    path = _build(name, sources, flags, os.path.abspath(build_directory), verbose, keep_intermediates)
    return _loaded(name, path, is_python_module, is_standalone)


def load_inline(
    name: str,
    cpp_sources: Any,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Compile sources that are texts and load them, as `load` does with files.

    Args:
        name: of the extension; sources see it as TORCH_EXTENSION_NAME.
        cpp_sources: a text or a list of them; `#include <torch/extension.h>` is put in front.
        cuda_sources, sycl_sources: a RuntimeError unless empty.
        functions: names of functions in the texts that the module gets, or a dict of names and docstrings.
        extra_cflags, extra_ldflags: flags for the compiler, which come last, and for the linker.
        extra_cuda_cflags, extra_sycl_cflags: for sources that cannot be compiled here, so never used.
        extra_include_paths: folders of headers.
        build_directory: the folder to build in.
        verbose: prints the commands and what the compiler says.
        with_cuda, with_sycl: True is a RuntimeError.
        is_python_module: False for a library that only registers operators.
        keep_intermediates: False removes the objects afterwards.
        use_pch: changes nothing.
        with_pytorch_error_handling: errors of C++ always become Python's.
        no_implicit_headers: leaves the include out.

    Returns: the module; None with `is_python_module=False`.

    >>> source = "at::Tensor twice(const at::Tensor& x) { return x + x; }"
    >>> module = torch.utils.cpp_extension.load_inline("example", source, functions=["twice"])  # doctest: +SKIP
    >>> module.twice(torch.ones(2))  # doctest: +SKIP
    tensor([2., 2.])
    """
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    if cuda_sources or sycl_sources:
        raise RuntimeError("load_inline: sources in C++ are expected, there is no nvcc here, got cuda_sources or sycl_sources")
    _check("load_inline", name, [], with_cuda, with_sycl)
    if not no_implicit_headers:
        texts.insert(0, "#include <torch/extension.h>")
    if functions is not None:
        if isinstance(functions, str):
            functions = [functions]
        named = functions if isinstance(functions, dict) else {function: function for function in functions}
        lines = [f"  m.def({_quoted(function)}, &{function}, {_quoted(doc)});" for function, doc in named.items()]
        texts.append("\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]))
    text = "\n".join(texts) + "\n"
    flags = _Flags(name, extra_cflags, extra_ldflags, extra_include_paths, False)
    if build_directory is None:
        build_directory = os.path.join(get_default_build_root(), f"{name}-{flags.key([], text)}")
    build_directory = os.path.abspath(build_directory)
    os.makedirs(build_directory, exist_ok=True)
    source = os.path.join(build_directory, "main.cpp")
    with _cpp_build.locked(build_directory):
        if not os.path.exists(source) or _text_of(source) != text:
            with open(source, "w") as file:
                file.write(text)
    path = _build(name, [source], flags, build_directory, verbose, keep_intermediates)
    return _loaded(name, path, is_python_module, False)


def _quoted(text):
    """Return a C++ literal of a text."""
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _text_of(path):
    with open(path) as file:
        return file.read()


def _check(function, name, sources, with_cuda, with_sycl):
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{function}: name is an identifier, got {name!r}")
    if with_cuda or with_sycl:
        raise RuntimeError(f"{function}: sources in C++ are expected, there is no nvcc here, got with_cuda or with_sycl")
    refuse_cuda(function, sources)
    for source in sources:
        if not os.path.isfile(source):
            raise FileNotFoundError(f"{function}: a source is a file, got {source!r}")


def listed(function: Callable[..., Any], what: Any, flags: Any) -> list[Any]:
    """Return flags as a list of texts."""
    if flags is None:
        return []
    if isinstance(flags, str) or not all(isinstance(flag, (str, os.PathLike)) for flag in flags):
        raise TypeError(f"{function}: {what} is a list of str, got {flags!r}")
    return [os.fspath(flag) for flag in flags]


def defines(name: str) -> list[str]:
    """Return what sources see of how they are compiled."""
    return ["-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={name}"]


def with_standard(flags: Any) -> list[Any]:
    """Return flags with C++20, which the headers need, in the place of earlier standards."""
    kept = [flag for flag in flags if flag not in _EARLIER]
    return kept if any(flag.startswith("-std=") for flag in kept) else [_STANDARD, *kept]


class _Flags:
    """Hold the arguments of compiler and linker other than the sources."""

    def __init__(self, name, extra_cflags, extra_ldflags, extra_include_paths, is_program):
        self.name, self.is_program = name, is_program
        self.compiler = shlex.split(get_cxx_compiler())
        folders = listed("load", "extra_include_paths", extra_include_paths)
        system = [*include_paths(), sysconfig.get_paths()["include"], *_pybind_paths()]
        self.compile = [*defines(name), "-fPIC", "-O2"]
        self.compile += [f"-I{os.path.abspath(folder)}" for folder in folders]
        self.compile += [word for folder in system for word in ("-isystem", folder)]
        self.compile += with_standard(listed("load", "extra_cflags", extra_cflags))
        self.link = [] if is_program else ["-shared"]
        self.tail = [word for folder in library_paths() for word in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
        self.tail += ["-lfacula", *listed("load", "extra_ldflags", extra_ldflags)]

    def key(self, sources, text=""):
        """Return a short text that is another one for other sources, flags, compilers or versions of Facula and Python."""
        known = hashlib.sha256()
        parts = [text, facula.__version__, sys.version, platform.machine(), str(self.is_program)]
        for part in (*parts, *self.compiler, *self.compile, *self.link, *self.tail):
            known.update(part.encode() + b"\0")
        for source in sources:
            known.update(source.encode() + b"\0")
            with open(source, "rb") as file:
                known.update(file.read() + b"\0")
        return known.hexdigest()[:16]


def _build(name, sources, flags, folder, verbose, keep_intermediates):
    """Return the path of the library or the program, made where that is needed."""
    if not check_compiler_ok_for_platform(flags.compiler[0]):
        raise RuntimeError(f"load: a C++ compiler is needed (CXX names one), got {shlex.join(flags.compiler)!r}")
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, name + ("" if flags.is_program else _MODULE_SUFFIX))
    objects = [os.path.join(folder, f"{i}.{os.path.basename(source)}.o") for i, source in enumerate(sources)]
    link = [*flags.compiler, *objects, *flags.link, *flags.tail]
    with _cpp_build.locked(folder):
        if keep_intermediates or not _cpp_build.is_current(target, [*link, "-o", f"{target}.new"], sources):
            compile = [*flags.compiler, *flags.compile]
            jobs = [(made, [*compile, "-c", source, "-o", made]) for source, made in zip(sources, objects)]
            _cpp_build.compile_objects(jobs, verbose)
            _cpp_build.link(target, link, objects, verbose)
        if not keep_intermediates:
            for made in objects:
                for path in (made, f"{made}.d", f"{made}.command"):
                    if os.path.exists(path):
                        os.unlink(path)
        return _fresh(target)


#: path of a library -> when the file that this process has loaded was written
_in_use: dict[str, int] = {}


def _fresh(path):
    """Return the path, or that of a copy where this process has loaded what lay there before: a path is loaded once."""
    written = os.stat(path).st_mtime_ns
    if _in_use.setdefault(path, written) == written:
        return path
    stem, suffix = os.path.splitext(path)
    copy = f"{stem}_{written}{suffix}"
    if not os.path.exists(copy):
        shutil.copy2(path, copy)
    return copy


def _loaded(name, path, is_python_module, is_standalone):
    if is_standalone:
        return path
    if not is_python_module:
        facula.ops.load_library(path)
        return None
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    facula.ops.check_registrations()
    return module
