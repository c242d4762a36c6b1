# alveus. `make demo` shows it, `make test` proves it, `make help` lists the rest.
# Needs make and Python 3.11 or newer; name another one with `make PYTHON=python3.13 …`.

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
BENCH_BIN := .venv-bench/bin
FLINK_BIN := .venv-flink/bin
INTEGRATIONS_BIN := .venv-integrations/bin
INTEGRATIONS := agentscope_middleware google_adk llama_index
NEIGHBOURS_BIN := .venv-neighbours/bin
OLDER_BIN := .venv-integrations-older/bin
RELEASE_BIN := .venv-release/bin
OLDER := agentscope_memory crewai
TEST_INTEGRATIONS := -m pytest -q -o addopts="-ra --import-mode=importlib --strict-config --strict-markers"
ROUNDS ?= 1
# A package of its own: weights, which never change.
WEIGHTS := packages/alveus-multilingual
# What may be compiled (hatch_build.py) is compiled again when it changes.
NATIVE := hatch_build.py $(wildcard src/alveus/values/*.c src/alveus/values/_c/*.h)
# Python compiles what is imported, of thousands of modules that are installed.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
PIP_INSTALL := $(PIP) -c constraints.txt

# What runs side by side tells its lines in one piece, where make can do that (from 4.0 on).
IN_ONE_PIECE := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Hundreds of tests start a process: it should find what was compiled before.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check test-integrations .newer .older neighbours browser pictures typescript .typescript flink .types .tests .no-coverage .half-1 .half-2 .coverage-of-both .java .pooler .chromium .axe soak steady bench docs release publish clean

help:  ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 26

demo: .venv/.alveus  ## Show what alveus does, in a minute (ARGS go to `alveus demo`)
	@$(BIN)/alveus demo $(ARGS)

check: .venv/.dev  ## The everyday checks: lint, format, types, imports, tests, coverage, docs (minutes)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory .no-coverage
	@$(MAKE) --no-print-directory --jobs=3 .types .half-1 .half-2
	@$(MAKE) --no-print-directory .coverage-of-both

# Side by side: the types take one core for two minutes, less where Node seldom collects.
.types:
	NODE_OPTIONS=--max-semi-space-size=128 $(BIN)/pyright

.tests: .no-coverage
	@$(MAKE) --no-print-directory --jobs=2 .half-1 .half-2
	@$(MAKE) --no-print-directory .coverage-of-both

.no-coverage:
	@$(BIN)/coverage erase

.half-1 .half-2:
	ALVEUS_TEST_SHARE=$(@:.half-%=%)/2 ALVEUS_TEST_SCALE=quick $(BIN)/coverage run -m pytest -q

.coverage-of-both:
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test: check .pooler  ## Every test: `make check`, the wheel, PostgreSQL, many more kills and random walks, frameworks, a browser, Apache Flink
	$(BIN)/python -m pytest -q -m wheel -n 2 --dist loadfile tests/test_wheel.py tests/test_other_pythons.py
	ALVEUS_TEST_SCALE=full $(BIN)/python -m pytest -q -m "(slow or server or scaled) and not flink" -n 4 --dist worksteal
	@echo "Frameworks that need separate environments, and the environments of later stages; each prints when it is done (minutes) …"
	@$(MAKE) --no-print-directory --jobs=2 $(IN_ONE_PIECE) .newer .older .venv-flink/.flink .venv-neighbours/.libraries .typescript
	@$(MAKE) --no-print-directory neighbours
	@$(MAKE) --no-print-directory --jobs=2 $(IN_ONE_PIECE) browser typescript
	@$(MAKE) --no-print-directory flink

test-integrations:  ## Frameworks and clients of others that need environments of their own
	@$(MAKE) --no-print-directory --jobs=2 $(IN_ONE_PIECE) .newer .older

.newer: .venv/.dev .venv-integrations/.peers
	$(BIN)/pyright --pythonpath $(INTEGRATIONS_BIN)/python $(INTEGRATIONS:%=src/alveus/integrations/%.py)
	$(INTEGRATIONS_BIN)/python $(TEST_INTEGRATIONS) tests/integrations

.older: .venv/.dev .venv-integrations-older/.peers
	$(BIN)/pyright --pythonpath $(OLDER_BIN)/python $(OLDER:%=src/alveus/integrations/%.py)
	$(OLDER_BIN)/python $(TEST_INTEGRATIONS) tests/integrations_older

neighbours: .venv-neighbours/.libraries  ## Other libraries with native code in one process with alveus (ROUNDS=N; minutes)
	ALVEUS_NEIGHBOUR_ROUNDS=$(ROUNDS) $(NEIGHBOURS_BIN)/python $(TEST_INTEGRATIONS) -n 2 tests/neighbours

browser: .venv/.browser .chromium .axe  ## The pages of the inspector in Chromium, on 100,000 items (a minute)
	$(BIN)/python -m pytest -q -m browser tests/test_*_pages.py

pictures: .venv/.browser .chromium  ## Take the pictures of the inspector for the documentation again
	ALVEUS_TEST_PICTURES=docs/pictures $(BIN)/python -m pytest -q -m browser -k "pictures or looks" tests/test_inspector_pages.py

typescript: .typescript  ## The types of the TypeScript client, by TypeScript's own compiler
	build/typescript/node_modules/.bin/tsc --noEmit --strict --noUncheckedIndexedAccess --target es2022 --module nodenext --lib es2023,dom,dom.iterable tests/typescript_types.mts

# Dozens of JVMs live for a minute or less: too short for Java's second compiler to pay off.
flink: .venv-flink/.flink .java  ## Agents in jobs of Apache Flink whose processes are killed, in an environment of its own
	JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" ALVEUS_TEST_SCALE=full \
	  $(FLINK_BIN)/python -m pytest -q -m flink -n 2 --dist load --maxschedchunk 1 tests/test_flink_jobs.py

soak: .venv/.dev .pooler  ## The random and kill tests with counts that take their time (an hour)
	ALVEUS_TEST_SCALE=soak $(BIN)/python -m pytest -q -m "scaled and not flink" -n 2 --dist worksteal

steady: .venv/.dev  ## Show that `make check` does not depend on how busy the machine is (an hour; ARGS: --rounds N)
	@$(BIN)/python tools/steady.py $(ARGS)

bench: .venv-bench/.peers  ## Measure alveus beside its peers, in an environment of its own (ARGS go to bench)
	$(BENCH_BIN)/python -m bench $(ARGS)

docs: .venv/.dev  ## Write the generated pages, build the site into build/site, then check every page
	$(BIN)/python tools/make_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python -m pytest -q -m "" tests/test_docs.py tests/test_house.py tests/test_site.py
	@echo "The documentation is in build/site/index.html; for its search, serve it: $(BIN)/mkdocs serve"

release: .venv-release/.tools  ## Build the source distribution and the wheels into dist/, check them, and use each in a fresh environment (minutes)
	@$(RELEASE_BIN)/python tools/release.py $(ARGS)

publish: .venv-release/.tools  ## Upload the packages of dist/ to PyPI; needs only PYPI_TOKEN
	@$(RELEASE_BIN)/python tools/release.py --publish $(ARGS)

clean:  ## Remove results and caches; environments stay (to renew them: rm -r .venv*)
	rm -rf build dist .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments: each is made once, and brought up to date when its list of packages changes

# $(call environment,FOLDER): a sound virtual environment in FOLDER, or a message that says what is missing.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "alveus needs Python 3.11 or newer, and '$(PYTHON)' is not: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Install one, or name the one you have: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without venv or ensurepip, which make environments." >&2; \
	  echo "On Debian and Ubuntu they are a package of their own: apt install python3-venv" >&2; exit 1; }
	@$(1)/bin/python -c 'import pip, sys; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Making $(1) (once) …"; $(PYTHON) -m venv --clear $(1); }
endef

.venv/.made:
	$(call environment,.venv)
	@touch $@

.venv/.alveus: .venv/.made pyproject.toml constraints.txt $(NATIVE)
	@echo "Installing alveus into .venv …"
	@$(BIN)/python $(PIP_INSTALL) -e .
	@touch $@

.venv/.dev: .venv/.made pyproject.toml constraints.txt $(NATIVE) $(WEIGHTS)/pyproject.toml
	@echo "Installing alveus and the tools of its tests into .venv …"
	@$(BIN)/python $(PIP_INSTALL) 'pip>=25.1'    # the first to know --group
	@$(BIN)/python $(PIP_INSTALL) ./$(WEIGHTS)
	@$(BIN)/python $(PIP_INSTALL) --group dev -e '.[agent-framework,anthropic,chat,langgraph,mcp,minilm-onnx,openai,otel,plot,postgres,pydantic-ai,server]'
	@touch .venv/.alveus $@

.venv-flink/.made:
	$(call environment,.venv-flink)
	@$(FLINK_BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || { \
	  echo "Apache Flink 2.3 needs Python 3.11 or 3.12: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@touch $@

# Flink holds numpy, protobuf and others to versions of its own, so it has constraints of its own.
.venv-flink/.flink: .venv-flink/.made pyproject.toml constraints-flink.txt $(NATIVE)
	@echo "Installing alveus and Apache Flink into .venv-flink (large: some minutes) …"
	@$(FLINK_BIN)/python $(PIP) -c constraints-flink.txt 'pip>=25.1'
	@$(FLINK_BIN)/python $(PIP) -c constraints-flink.txt --group flink -e '.[flink,postgres]'
	@touch $@

# Flink runs in Java. As root on Debian it is installed; elsewhere that is for whoever owns the machine.
.java:
	@java -version 2>&1 | grep -Eq 'version "(17|21)' || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Java 17 …" && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } || { \
	  echo "Apache Flink needs Java 17; on Debian and Ubuntu: apt install openjdk-17-jre-headless" >&2; exit 1; }

# As Java is. The newest PostgreSQL comes with a package of Python; this is an older one.
.pooler:
	@{ PATH="$$PATH:/usr/sbin" command -v pgbouncer && ls /usr/lib/postgresql/*/bin/postgres; } >/dev/null 2>&1 || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing PostgreSQL and PgBouncer …" && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql pgbouncer >/dev/null; } || { \
	  echo "The tests of PostgreSQL need an older server too, and PgBouncer; on Debian and Ubuntu: apt install postgresql pgbouncer" >&2; exit 1; }

.venv-integrations/.made:
	$(call environment,.venv-integrations)
	@touch $@

.venv-integrations/.peers: .venv-integrations/.made pyproject.toml constraints-integrations.txt $(NATIVE)
	@echo "Installing alveus and the frameworks of its integrations into .venv-integrations …"
	@$(INTEGRATIONS_BIN)/python $(PIP) -c constraints-integrations.txt 'pip>=25.1'
	@$(INTEGRATIONS_BIN)/python $(PIP) -c constraints-integrations.txt --group integrations -e '.[agentscope,google-adk,llama-index,server]'
	@touch $@

.venv-integrations-older/.made:
	$(call environment,.venv-integrations-older)
	@$(OLDER_BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || { \
	  echo "CrewAI needs Python 3.11 to 3.13: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@touch $@

# CrewAI holds pydantic, openai, mcp and others to versions that the other frameworks are past.
.venv-integrations-older/.peers: .venv-integrations-older/.made pyproject.toml constraints-integrations-older.txt $(NATIVE)
	@echo "Installing alveus and frameworks with older needs into .venv-integrations-older (large: some minutes) …"
	@$(OLDER_BIN)/python $(PIP) -c constraints-integrations-older.txt 'pip>=25.1'
	@$(OLDER_BIN)/python $(PIP) -c constraints-integrations-older.txt --group integrations-older -e '.[crewai]'
	@touch $@

.venv-neighbours/.made:
	$(call environment,.venv-neighbours)
	@touch $@

.venv-neighbours/.libraries: .venv-neighbours/.made pyproject.toml constraints-neighbours.txt $(NATIVE)
	@echo "Installing alveus and its neighbours into .venv-neighbours (large: a minute or two) …"
	@$(NEIGHBOURS_BIN)/python $(PIP) -c constraints-neighbours.txt 'pip>=25.1'
	@$(NEIGHBOURS_BIN)/python $(PIP) -c constraints-neighbours.txt --group neighbours -e .
	@touch $@

.venv-release/.made:
	$(call environment,.venv-release)
	@touch $@

.venv-release/.tools: .venv-release/.made pyproject.toml constraints-release.txt
	@echo "Installing what makes a release into .venv-release …"
	@$(RELEASE_BIN)/python $(PIP) -c constraints-release.txt 'pip>=25.1'
	@$(RELEASE_BIN)/python $(PIP) -c constraints-release.txt --group release
	@touch $@

.venv/.browser: .venv/.dev
	@$(BIN)/python $(PIP_INSTALL) --group browser
	@touch $@

# As Java is: as root on Debian it is installed; elsewhere that is for whoever owns the machine.
.chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium …" && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || { \
	  echo "The tests of the inspector need Chromium; on Debian: apt install chromium" >&2; exit 1; }

# Finds what is not accessible; a tool of the tests, which no package of alveus holds.
.axe:
	@[ -f build/axe/node_modules/axe-core/axe.min.js ] || { \
	  command -v npm >/dev/null && npm install --silent --no-save --no-audit --no-fund --prefix build/axe axe-core@4 >/dev/null; } || { \
	  echo "The tests of the inspector need npm, to install axe-core; on Debian: apt install npm" >&2; exit 1; }

.typescript:
	@[ -x build/typescript/node_modules/.bin/tsc ] || { \
	  command -v npm >/dev/null && npm install --silent --no-save --no-audit --no-fund --prefix build/typescript typescript@5 >/dev/null; } || { \
	  echo "The types of the TypeScript client need npm, to install TypeScript; on Debian: apt install npm" >&2; exit 1; }

.venv-bench/.made:
	$(call environment,.venv-bench)
	@touch $@

# The peers choose their own versions, so the constraints do not hold here.
.venv-bench/.peers: .venv-bench/.made pyproject.toml bench/requirements.txt $(NATIVE)
	@echo "Installing alveus and its peers into .venv-bench (large: some minutes) …"
	@$(BENCH_BIN)/python $(PIP) -r bench/requirements.txt -e .
	@touch $@
