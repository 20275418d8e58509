# demo, test, proofs, lint, bench, matrix, conformance and wheels work from a fresh clone. They need python3 (3.11 or
# later, with headers; matrix and conformance exactly 3.11, since the oldest torch supports nothing later). All but demo
# need Go and a C compiler. demo fetches these if they are missing, and wheels has a C compiler of its own. test-cuda
# and bench-cuda also need an NVIDIA GPU. bench, matrix, conformance and proofs print their results; with WRITE=1 they
# put them into the documents.

# If it is set, as in containers, each process compiles all modules again, and pytest rewrites asserts again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON = .venv/bin/python
PYRIGHT = PYTHONPATH=python PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright --pythonpath $(PYTHON)
UV = .venv/bin/uv pip install --quiet --python
SOURCES := build.py go.mod $(shell find pyext pkg -name '*.[chs]' -o -name '*.go' -o -name '*.map')
ACTIONLINT = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GO_TOOLS = .venv/$(notdir $(ACTIONLINT)) .venv/$(notdir $(STATICCHECK))
BENCHSTAT = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# Runs tests in parallel, with more workers than CPUs, since tests wait a fifth of their time. Tests that measure time
# run alone. A crash ends the run: if another worker replaces the crashed one, pytest-xdist 3.8 may hang.
JOBS = $(shell expr $$(nproc) + 2)
TOGETHER = -m "not serial" -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Values from the command line and from CI. Neither make nor a shell expands them: programs find them in the environment.
$(foreach name,REF ONLY TAG LINKS WRITE,$(eval override export $(name) := $$(value $(name))))

# The free-threaded interpreter in which make bench times threads: an installed one, or that of make interpreters.
FREE_THREADED := $(firstword $(foreach version,3.15 3.14,$(shell command -v python$(version)t)) \
	$(wildcard .interpreters/3.14t/bin/python3.14t))

# Python 3.12 or later, which numpy 2.5 needs: one on PATH, else one that pyenv installed.
NEWEST := $(firstword $(foreach version,3.14 3.13 3.12,$(shell python$(version) -c "import sys; print(sys.executable)" \
	2>/dev/null)) $(wildcard $(HOME)/.pyenv/versions/3.1[2-4].*/bin/python3))

# The environments of make matrix and make conformance: that of the tests, and those of packages that don't fit into it.
MATRIX = .venv $(NEWEST:%=.venv-newest) .venv-oldest .venv-mxnet .venv-triton \
	$(if $(wildcard /proc/driver/nvidia),.venv-cuda)
CONFORMANCE = $(filter-out .venv-mxnet .venv-triton,$(MATRIX)) .venv-dpctl .venv-pydlpack

.PHONY: demo test test-all test-one-cpu test-hints proofs coverage mutants interpreters test-cuda format environments \
	lint bench bench-compare bench-instructions bench-cuda matrix conformance docs wheels check-wheels rehearse lock \
	notes clean

demo: .venv/package .venv/demo
	$(PYTHON) examples/demo.py

test: .venv/package .venv/conformance .venv/test
	go test ./...
	$(PYTHON) -m pytest $(TOGETHER)
	$(PYTHON) -m pytest -m serial

# Also tests the real libraries, package builds and frozen applications. Each process has one CPU, as in containers.
test-all: .venv/package .venv/conformance .venv/libraries .venv-freezers/freezers
	go test ./...
	$(PYTHON) -m pytest --all --cpu 0 $(TOGETHER)
	$(PYTHON) -m pytest --all -m serial

# Runs all Python tests on one CPU, as in most containers.
test-one-cpu: .venv/package .venv/conformance .venv/libraries .venv-freezers/freezers
	$(PYTHON) -m pytest --all --cpu 0

proofs: .venv/package .venv/conformance .venv/libraries .venv-freezers/freezers test-hints
	$(PYTHON) -m pytest --all --long --timeout 1800 $(if $(WRITE),--figures docs/proofs.json)
	$(if $(WRITE),$(PYTHON) docs/figures.py docs/proofs.json)

# Runs the hints for objects of libraries that don't fit into the environment of the other tests.
test-hints: .venv/package .venv/conformance .venv-hints/hints
	PYTHONPATH=python:conformance .venv-hints/bin/python -m pytest tests/hints

coverage: .venv/package .venv/conformance .venv/libraries .venv-freezers/freezers .venv/coverage
	$(PYTHON) tools/coverage.py --all

# Results are in mutants.json. ARGUMENTS="--minutes 60 --only go" goes to tools/mutants.py.
mutants: .venv/package .venv/conformance .venv/test .venv/mutants
	$(PYTHON) tools/mutants.py $$ARGUMENTS

# ONLY="3.14 3.14t" runs the tests in these alone.
interpreters: .venv/package .venv/conformance .venv/test
	$(PYTHON) tools/interpreters.py $$ONLY

test-cuda: .venv/package .venv/conformance .venv-cuda/matrix
	PYTHONPATH=python:conformance .venv-cuda/bin/python -m pytest tests/gpu tests/cuda -k GPU

format: .venv/lint
	gofmt -w pkg pyext
	.venv/bin/clang-format -i $$(find pyext pkg tests conformance benchmarks examples -name "*.[ch]")
	.venv/bin/ruff check --fix --quiet
	.venv/bin/ruff format --quiet

# Installs the environments and tools of lint, docs and test-all; with --jobs in parallel.
environments: .venv/libraries .venv/conformance .venv/lint .venv-freezers/freezers .venv-docs/docs $(GO_TOOLS)

# Needs no network once its tools are installed.
lint: .venv/conformance .venv/lint $(GO_TOOLS)
	@files=$$(gofmt -l pkg pyext); test -z "$$files" || { echo "gofmt changes these:" $$files; exit 1; }
	go vet ./...
	GOOS=windows go vet ./pkg/dlpack ./pkg/protocol ./pkg/strided
	GOOS=darwin go vet ./pkg/dlpack ./pkg/protocol ./pkg/strided
	GOARCH=arm64 go vet ./pkg/strided
	.venv/bin/staticcheck ./...
	.venv/bin/actionlint .github/workflows/*.yml
	.venv/bin/zizmor --offline --quiet .
	CFLAGS=-Werror $(PYTHON) build.py
	.venv/bin/clang-format --dry-run -Werror $$(find pyext pkg tests conformance benchmarks examples -name "*.[ch]")
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy --strict build.py python/dlpack conformance/pytest_dlpack conformance/*.py examples benchmarks docs
	.venv/bin/mypy tests conformance/tests tools
	PYTHONPATH=python .venv/bin/stubtest --mypy-config-file pyproject.toml --allowlist tests/sources/not_in_stubs.txt \
		dlpack._dlpack
	$(PYRIGHT)
	$(PYRIGHT) --verifytypes dlpack --ignoreexternal

bench: .venv/package .venv/libraries .venv-pydlpack/pydlpack $(FREE_THREADED:%=.venv-free-threaded/package)
	$(PYTHON) benchmarks/run.py $(if $(WRITE),--runs 3 --json docs/speed.json) --pydlpack .venv-pydlpack/bin/python \
		$(FREE_THREADED:%=--free-threaded .venv-free-threaded/bin/python)
	$(if $(WRITE),$(PYTHON) benchmarks/report.py docs/speed.json)
	$(PYTHON) benchmarks/bench_engines.py $(if $(WRITE),--write)
	$(PYTHON) benchmarks/bench_go.py $(BENCHSTAT)

# Times the working tree against the commit REF (default: HEAD).
bench-compare: .venv/package .venv/libraries
	$(PYTHON) benchmarks/compare.py "$${REF:-HEAD}" $(BENCHSTAT)

# Counts instructions by valgrind instead, and fails if a hot call takes 3 % more than in REF.
bench-instructions: .venv/package .venv/demo
	$(PYTHON) benchmarks/compare.py "$${REF:-HEAD}" instructions

bench-cuda: .venv/package .venv-cuda/matrix
	PYTHONPATH=python .venv-cuda/bin/python benchmarks/bench_cuda.py

matrix: .venv/package .venv/libraries $(patsubst .venv-%,.venv-%/matrix,$(filter-out .venv,$(MATRIX)))
	$(PYTHON) docs/matrix.py $(if $(WRITE),--write) $(MATRIX:%=%/bin/python)

# ONLY=torch,jax tests these alone, and keeps the results of the others.
conformance: .venv/package .venv/conformance .venv/libraries $(patsubst .venv-%,.venv-%/matrix,$(filter-out .venv,$(CONFORMANCE)))
	$(PYTHON) docs/conformance.py $(if $(WRITE),--write) $${ONLY:+--only "$$ONLY"} $(CONFORMANCE:%=%/bin/python)

# Builds the site. With LINKS=1, also follows external links.
docs: .venv/package .venv-docs/docs
	PYTHONPATH=python .venv-docs/bin/sphinx-build -W --keep-going --quiet docs docs/_build/html
	.venv-docs/bin/python docs/links.py docs/_build/html
	$(if $(LINKS),PYTHONPATH=python .venv-docs/bin/sphinx-build --quiet -b linkcheck docs docs/_build/links)

wheels: .venv-wheels/wheels
	.venv-wheels/bin/python tools/wheels.py

# Checks the wheels that make wheels left in dist.
check-wheels: .venv-wheels/wheels
	.venv-wheels/bin/python tools/check_wheels.py

# Rehearses a release of the last commit, from the tag to the install. Nothing is published.
rehearse: .venv-wheels/wheels
	.venv-wheels/bin/python tools/rehearse.py

# Rewrites tools/wheels.txt, the files and hashes that the group wheels needs, after that changes. Other versions stay.
lock: .venv/python
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group wheels \
		--custom-compile-command "make lock" --output-file tools/wheels.txt

# Prints this version's entry in CHANGELOG.md. With TAG, the entry must have the day of the release.
notes:
	@python3 tools/notes.py

clean:
	rm -rf .venv .venv-* .interpreters dist docs/_build python/dlpack/*.so

# Stamps: each file is touched when the packages that it stands for are installed.

.venv/python:
	python3 -m venv .venv
	$(PYTHON) -m pip install --quiet uv==0.13.9
	touch $@

.venv/package: .venv/python pyproject.toml $(SOURCES)
	$(UV) $(PYTHON) --editable .
	touch $@

# A hook of its build copies the last two.
.venv/conformance: .venv/python conformance/pyproject.toml conformance/hatch_build.py python/dlpack/_abi.py \
		python/dlpack/tests/findings.py
	$(UV) $(PYTHON) --editable conformance
	touch $@

.venv/demo .venv/test .venv/libraries .venv/lint .venv/coverage .venv/mutants: .venv/python pyproject.toml
	$(UV) $(PYTHON) --group $(@F)
	touch $@

$(GO_TOOLS): .venv/python
	GOBIN="$$PWD/.venv/bin" go install $(filter %/$(@F),$(ACTIONLINT) $(STATICCHECK))
	touch $@

.venv-free-threaded/package: .venv/python pyproject.toml $(SOURCES)
	'$(FREE_THREADED)' -m venv --without-pip $(@D)
	$(UV) $(@D)/bin/python .
	touch $@

.venv-newest/matrix: .venv/python pyproject.toml
	'$(NEWEST)' -m venv --without-pip $(@D)
	$(UV) $(@D)/bin/python --group newest
	touch $@

# Uses pip, and no sdists, which would fetch their build tools: nothing is installed without its hash.
.venv-wheels/wheels: tools/wheels.txt
	python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --only-binary :all: --require-hashes --requirement $<
	touch $@

.venv-%/pydlpack .venv-%/matrix .venv-%/freezers .venv-%/hints .venv-%/docs: .venv/python pyproject.toml
	python3 -m venv $(@D)
	$(UV) $(@D)/bin/python --group $*
	touch $@
