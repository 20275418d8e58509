# demo, test, lint, bench and matrix each work from a fresh clone. They need python3 (3.11 or later, with its headers;
# matrix just 3.11: mxnet and the oldest torch have nothing later); test, lint and matrix also need Go and a C compiler,
# which the others fetch where they are missing. test-cuda and bench-cuda need a GPU of NVIDIA's besides.

PYTHON = .venv/bin/python
PIP = $(PYTHON) -m pip install --quiet
SOURCES := build.py go.mod $(shell find pyext pkg -name '*.[ch]' -o -name '*.go' -o -name '*.map')
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# What make matrix tries: the environment of the tests, and what does not fit in it.
MATRIX = .venv .venv-oldest .venv-mxnet .venv-triton $(if $(wildcard /proc/driver/nvidia),.venv-cuda)

.PHONY: demo test test-cuda lint bench bench-cuda matrix clean

demo: .venv/package .venv/demo
	$(PYTHON) examples/demo.py

test: .venv/package .venv/test
	go test ./...
	$(PYTHON) -m pytest

test-cuda: .venv/package .venv-cuda/matrix
	PYTHONPATH=python .venv-cuda/bin/python -m pytest tests/cuda

lint: .venv/lint
	@files=$$(gofmt -l pkg pyext); test -z "$$files" || { echo "gofmt changes these:" $$files; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	CFLAGS=-Werror $(PYTHON) build.py
	.venv/bin/clang-format --dry-run -Werror $$(find pyext pkg tests -name "*.[ch]")
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy --strict build.py python/dlpack examples benchmarks docs
	.venv/bin/mypy tests
	PYTHONPATH=python .venv/bin/stubtest --mypy-config-file pyproject.toml dlpack._dlpack
	.venv/bin/pyright --pythonpath $(PYTHON)

bench: .venv/package .venv/test .venv-pydlpack/pydlpack
	$(PYTHON) benchmarks/bench_asdlpack.py --pydlpack .venv-pydlpack/bin/python

bench-cuda: .venv/package .venv-cuda/matrix
	PYTHONPATH=python .venv-cuda/bin/python benchmarks/bench_cuda.py

matrix: .venv/package .venv/test $(patsubst .venv-%,.venv-%/matrix,$(filter-out .venv,$(MATRIX)))
	$(PYTHON) docs/matrix.py $(MATRIX:%=%/bin/python)

clean:
	rm -rf .venv .venv-* dist python/dlpack/*.so

# Stamps: a file is touched when what it stands for is installed.

.venv/python:
	python3 -m venv .venv
	$(PIP) pip==26.3
	touch $@

.venv/package: .venv/python pyproject.toml $(SOURCES)
	$(PIP) --editable .
	touch $@

.venv/demo .venv/test .venv/lint: .venv/python pyproject.toml
	$(PIP) --group $(@F)
	touch $@

.venv-%/pydlpack .venv-%/matrix: pyproject.toml
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet pip==26.3
	$(@D)/bin/python -m pip install --quiet --group $*
	touch $@
