"""The package as programs in C++ and C see it: libraries, headers, find_package(Facula) and find_package(Torch)."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from cpp_programs import MODULE, needs_tools, project, run

import facula
import facula.utils


def test_prefixes_lie_in_the_package(package):
    home = Path(facula.__file__).parent
    both, alone = (package / Path(path).relative_to(home) for path in (facula.utils.cmake_prefix_path, facula.utils.facula_cmake_prefix_path))
    assert (both / "Facula" / "FaculaConfig.cmake").exists() and (alone / "Facula" / "FaculaConfig.cmake").exists()
    assert (both / "Torch" / "TorchConfig.cmake").exists() and not list(alone.rglob("TorchConfig.cmake"))
    version = (both / "Torch" / "TorchConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{facula.__version__.partition("+")[0]}")' in version


def test_public_headers_include_only_each_other(package):
    include = package / "include"
    headers = list(include.rglob("*.h"))
    assert {"facula.h", "facula/facula.h", "compat/torch/torch.h"} <= {str(h.relative_to(include)) for h in headers}
    for header in headers:
        for name in re.findall(r'^#include [<"]((?:facula|torch)[/.][^">]+)', header.read_text(), re.M):
            assert (include / name).exists() or (include / "compat" / name).exists(), f"{header}: {name}"
        assert not re.findall(r'^#include "', header.read_text(), re.M), f"{header}: names in quotes may be a program's"


def variables(path, kinds):
    """Variables of Facula's namespaces, by nm's letters, without those inside functions and anonymous namespaces."""
    lines = (line.split(maxsplit=2) for line in run("nm", "-C", "--defined-only", path).splitlines())
    return {line[2] for line in lines if len(line) == 3 and line[1] in kinds and re.fullmatch(r"facula::[\w:]+", line[2])}


@pytest.mark.skipif(not shutil.which("nm") or not (MODULE.parent / "cmake_install.cmake").exists(), reason="a build is needed, not stripped")
def test_state_is_there_once():
    """A variable of a header that module and library would both have is two: what one of them sets the other does not see."""
    ours = variables(MODULE.parent / "lib" / "libfacula.so", "bBDuV")  # not d and r, which are also constants of every file
    assert len(ours) > 100
    assert not ours & variables(MODULE, "bBdDuV")


FACULA_PROGRAM = """
#include <facula/facula.h>
#include <cstdio>
using namespace facula;
const Tensor made_before_main = full({2}, 3.0);
int main() {
  const Tensor x = arange(6, DType::Float32);
  set_requires_grad(x, true);
  const Tensor loss = sum(mul(x, x));
  run_backward({gradient_edge(loss.impl())}, {full({}, 1.0)}, {}, {});
  std::printf("%g %g\\n", sum(grad_of(x)).item().to_double(), sum(made_before_main).item().to_double());
  std::printf("%s\\n", name(DeviceType::CPU));  // a variable of the library
  try {
    mul(x, zeros({4}));
  } catch (const Error& error) {
    std::printf("%s\\n", error.kind() == ErrorKind::Runtime ? "refused" : error.what());
  }
}
"""

C_PROGRAM = """
#include <facula.h>
#include <stdio.h>
int main(void) {
  float numbers[] = {1, -2, 3};
  int64_t sizes[] = {3};
  fc_tensor x = NULL;
  if (fc_tensor_copy_of(numbers, sizeof numbers, sizes, 1, FC_FLOAT32, &x)) return puts(fc_error_text()), 1;
  fc_value argument = {.kind = FC_TENSOR_VALUE, .as.tensor = x}, result;
  if (fc_call(fc_op_find("relu"), &argument, 1, &result, 1)) return puts(fc_error_text()), 1;
  if (fc_tensor_read(result.as.tensor, numbers, sizeof numbers)) return puts(fc_error_text()), 1;
  printf("%g %g %g\\n", numbers[0], numbers[1], numbers[2]);
  fc_value_release(&result);
  fc_tensor_release(x);
  return 0;
}
"""

TORCH_PROGRAM = """
#include <torch/torch.h>
#include <iostream>
struct Net : torch::nn::Module {
  Net() { register_module("linear", linear); }
  torch::Tensor forward(torch::Tensor x) { return torch::relu(linear->forward(x)); }
  torch::nn::Linear linear{3, 2};
};
int main() {
  torch::manual_seed(5);
  auto net = std::make_shared<Net>();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto x = torch::randn({4, 3});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(net->forward(x), torch::ones({4, 2}));
    loss.backward();
    optimizer.step();
    std::cout << loss.item<double>() << "\\n";
  }
  try {
    net->forward(torch::zeros({4, 4}));
  } catch (const c10::Error& error) {
    std::cout << "refused\\n";
  }
}
"""


@needs_tools
def test_programs_find_facula(package, tmp_path):
    text = """
project(outside LANGUAGES C CXX)
find_package(Facula 0.1 REQUIRED)
find_package(Torch QUIET)
if(Torch_FOUND)
  message(FATAL_ERROR "nobody asked for Facula as libtorch")
endif()
add_executable(program program.cpp)
target_link_libraries(program PRIVATE Facula::facula)
add_executable(c_program program.c)
target_link_libraries(c_program PRIVATE Facula::facula)
"""
    sources = {"program.cpp": FACULA_PROGRAM, "program.c": C_PROGRAM}
    build = project(tmp_path / "outside", package, text, sources, "lib/cmake")
    assert run(build / "program") == "30 6\ncpu\nrefused\n"
    assert run(build / "c_program") == "1 0 3\n"


@pytest.mark.slow
@needs_tools
def test_programs_for_libtorch_find_torch(package, tmp_path):
    text = """
project(outside LANGUAGES CXX)
find_package(Torch 2.1 REQUIRED)
find_package(Facula REQUIRED)
find_library(TORCH_PYTHON_LIBRARY torch_python PATHS "${TORCH_INSTALL_PREFIX}/lib")
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} ${TORCH_CXX_FLAGS}")
add_executable(program program.cpp)
target_link_libraries(program "${TORCH_LIBRARIES}" c10 torch_cpu ${TORCH_PYTHON_LIBRARY})
set_property(TARGET program PROPERTY CXX_STANDARD 17)
"""
    prefix = Path(facula.utils.cmake_prefix_path).relative_to(Path(facula.__file__).parent)
    build = project(tmp_path / "outside", package, text, {"program.cpp": TORCH_PROGRAM}, prefix)
    *losses, last = run(build / "program").split()
    assert last == "refused"
    facula.manual_seed(5)
    net = facula.nn.Linear(3, 2)
    optimizer = facula.optim.SGD(net.parameters(), 0.1)
    x = facula.randn(4, 3)
    for printed in losses:
        optimizer.zero_grad()
        loss = facula.nn.functional.mse_loss(facula.relu(net(x)), facula.ones(4, 2))
        loss.backward()
        optimizer.step()
        assert float(printed) == pytest.approx(loss.item(), rel=1e-4)


def test_a_build_asks_the_command_for_the_prefix():
    """Build as the pages of libtorch tell it: the command line prints the prefix, and PyTorch's own place for it is right, too."""
    program = "import os, torch; print(torch.utils.cmake_prefix_path, os.path.join(os.path.dirname(torch.__file__), 'share', 'cmake'))"
    printed = run(sys.executable, "-m", "facula", "-c", program).split()
    assert printed == [facula.utils.cmake_prefix_path] * 2


@needs_tools
@pytest.mark.parametrize("wanted", ["2.99", "3"])
def test_a_later_libtorch_is_not_found(package, tmp_path, wanted):
    text = f"project(outside LANGUAGES CXX)\nfind_package(Torch {wanted} QUIET)\nif(Torch_FOUND)\n  message(FATAL_ERROR found)\nendif()\n"
    project(tmp_path / "outside", package, text, {}, "share/cmake")
