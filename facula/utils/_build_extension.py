"""Define `BuildExtension`, the command build_ext for extensions that are written for PyTorch. It needs setuptools."""

from __future__ import annotations

import os

try:
    from setuptools.command.build_ext import build_ext
except ImportError as error:
    raise ImportError(f"cpp_extension.BuildExtension: setuptools is needed (pip install setuptools): {error}") from error

from . import _cpp_build, cpp_extension

_CXX_SOURCES = (".cpp", ".cc", ".cxx", ".c++", ".C")


class BuildExtension(build_ext):
    """Run the command `build_ext` of a setup.py with C++20 and TORCH_EXTENSION_NAME, and compile only what has changed.

    Args:
        args, kwargs: what setuptools gives its command.
        no_python_abi_suffix: names files `name.so`, without the version of Python.
        use_ninja: makes no difference: several sources are compiled at once in any case.

    A setup.py names it: `setup(..., cmdclass={"build_ext": BuildExtension})`.

    >>> from setuptools import Distribution
    >>> command = torch.utils.cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)(Distribution())
    >>> command.no_python_abi_suffix
    True
    """

    def __init__(self, *args, no_python_abi_suffix=False, use_ninja=True, **kwargs):
        super().__init__(*args, **kwargs)
        self.no_python_abi_suffix, self.use_ninja = no_python_abi_suffix, use_ninja

    @classmethod
    def with_options(cls, **options):
        """Return a class whose instances have these `options`, keyword arguments of the class."""

        class WithOptions(cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **{**kwargs, **options})

        return WithOptions

    def build_extensions(self):
        """Compile and link all of them."""
        for extension in self.extensions:
            self._prepare(extension)
        self.compiler.src_extensions = list(dict.fromkeys([*self.compiler.src_extensions, *_CXX_SOURCES]))
        self.compiler.compile = self._compile
        super().build_extensions()

    def _prepare(self, extension):
        cpp_extension.refuse_cuda("BuildExtension", extension.sources)
        flags = extension.extra_compile_args
        if isinstance(flags, dict):
            unknown = set(flags) - {"cxx", "nvcc", "nvcc_dlink", "sycl"}
            if unknown:
                raise ValueError(f"BuildExtension: extra_compile_args has the keys cxx and nvcc, got {sorted(unknown)}")
            flags = flags.get("cxx", [])
        flags = cpp_extension.listed("BuildExtension", "extra_compile_args", flags)
        name = extension.name.rpartition(".")[2]
        extension.extra_compile_args = [*cpp_extension.defines(name), *cpp_extension.with_standard(flags)]

    def _compile(
        self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None, extra_postargs=None,
        depends=None,
    ):  # fmt: skip
        """Compile in the place of the compiler's own method, which compiles all sources one after the other."""
        compiler = self.compiler
        setup = compiler._setup_compile(output_dir, macros, include_dirs, sources, depends, extra_postargs)
        macros, objects, extra, options, build = setup
        options = compiler._get_cc_args(options, debug, extra_preargs)
        jobs = []
        for made in objects:
            source, suffix = build[made]
            is_c = suffix == ".c"
            command = list(compiler.compiler_so if is_c else getattr(compiler, "compiler_so_cxx", None) or compiler.compiler_so)
            if not is_c and "CXX" in os.environ or not is_c and not hasattr(compiler, "compiler_so_cxx"):
                command[:1] = cpp_extension.get_cxx_compiler().split()
            flags = [flag for flag in extra if not (is_c and flag.startswith("-std=c++"))]
            jobs.append((made, [*command, *options, os.fspath(source), "-o", made, *flags]))
        _cpp_build.compile_objects(jobs, bool(self.verbose) and not getattr(self, "quiet", False))
        return objects

    def get_ext_filename(self, ext_name):
        """Return the file of an extension."""
        name = super().get_ext_filename(ext_name)
        parts = name.split(".")
        if self.no_python_abi_suffix and len(parts) > 2:  # name.cpython-311-x86_64-linux-gnu.so
            del parts[-2]
        return ".".join(parts)
