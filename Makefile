# From a fresh clone: `make demo`, then `make test`. Both install into .venv; the second one finds what the first has compiled.
#
#   make demo      build, install, and train the digits example
#   make check     before every commit: the tests of what has changed, and its style (tests/changed.py says which, and why)
#   make test      build, install, and run the whole suite, in as many processes as there are cores
#   make docs      the documentation site, build/docs/index.html
#   make lint      what CI checks of the style of C++ and Python; `make format` puts C++ right
#   make sanitize  the C++ tests under AddressSanitizer and UBSan; SANITIZER=thread looks for races
#   make compare   the same programs and cases under PyTorch, where it is installed beside (docs/internals/comparison.md)
#   make wheel     a wheel from the sdist, with a manylinux tag, in dist/
#   make aarch64   for 64-bit ARM: a cross build, and tests under qemu (docs/internals/other_processors.md)
#   make clean     forget the environment and everything built
#
# PYTHON and VENV choose the interpreter and the environment: make demo PYTHON=python3.12 VENV=.venv312

PYTHON ?= python3
VENV ?= .venv
SANITIZER ?= address,undefined
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
BUILD = $(BIN)/python .ci/progress.py $(BIN)/python -m pip install -v --disable-pip-version-check --no-build-isolation

.PHONY: demo check test docs lint format sanitize compare wheel aarch64 clean
.DELETE_ON_ERROR:

demo: $(VENV)/built
	$(BUILD) ".[examples]"
	$(BIN)/python examples/digits.py

test: $(VENV)/built
	$(BUILD) ".[examples,test]"
	$(BIN)/python -m pytest -q -n auto

# Of a build in the checkout (CONTRIBUTING.md, "Set up"), which is brought up to date, or else of the package, installed as above.
check: $(VENV)/built $(VENV)/lint
	@if ls facula/_C.*.so >/dev/null 2>&1; then $(BIN)/ninja -C build/dev --quiet; \
	else $(BUILD) .; fi
	$(BIN)/python .ci/requirements.py dependencies test | $(PIP) -r /dev/stdin
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tests/changed.py

docs: $(VENV)/built
	$(PIP) --no-build-isolation ".[docs]"
	$(BIN)/python docs/site/build.py

# What builds the package stands in the environment itself: its paths stay, so that nothing is compiled twice.
$(VENV)/built: pyproject.toml | $(VENV)/bin/python
	@command -v $(CXX) >/dev/null || { echo "make: a C++20 compiler is needed, and '$(CXX)' is not here;" \
	  "on Debian or Ubuntu: apt-get install g++" >&2; exit 1; }
	$(PIP) --no-compile cmake ninja $$($(BIN)/python .ci/requirements.py requires)
	touch $@

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: Python 3.10 or newer is needed, and '$(PYTHON)' is not here" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "make: Python 3.10 or newer is needed," \
	  "and '$(PYTHON)' is $$($(PYTHON) --version)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: Python's venv module is needed, and '$(PYTHON)' has none;" \
	  "on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

lint: $(VENV)/lint
	PATH="$(abspath $(BIN)):$$PATH" .ci/lint

format: $(VENV)/lint
	PATH="$(abspath $(BIN)):$$PATH" .ci/lint --fix

$(VENV)/lint: pyproject.toml | $(VENV)/bin/python
	$(PIP) $$($(BIN)/python .ci/requirements.py lint)
	touch $@

sanitize: $(VENV)/built
	PATH="$(abspath $(BIN)):$$PATH" && cmake -S . -B build/$(SANITIZER) -G Ninja -DFACULA_TESTS=ON \
	  -DFACULA_SANITIZE=$(SANITIZER) && ninja -C build/$(SANITIZER) && ctest --test-dir build/$(SANITIZER) --output-on-failure

# PARTS chooses among random modules saved parity peer programs; FACULA_COMPARE_TORCH is a Python that has PyTorch.
compare: $(VENV)/built
	$(PIP) --no-build-isolation ".[examples,test]"
	$(BIN)/python tests/compare $(PARTS)

wheel: $(VENV)/built
	$(PIP) $$($(BIN)/python .ci/requirements.py wheel)
	PATH="$(abspath $(BIN)):$$PATH" .ci/wheel $(BIN)/python dist

aarch64: $(VENV)/built
	PATH="$(abspath $(BIN)):$$PATH" .ci/aarch64

clean:
	rm -rf $(VENV) build
