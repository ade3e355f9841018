# `make help` lists the targets with their times on 2 idle cores, once `make env` has installed what they need.
PYTHON ?= python3
export PYTHON
RUN := .venv/bin/python
STATE := build/demo
# What the tests need beside the core. Ray (400 MB) is installed only by the targets that use it.
EXTRAS := kernels,train,eval,report,opt,rl,llm,k8s,docs,dev
ENV := @scripts/make-env $(EXTRAS)
# Test processes side by side: more than there are cores, because real servers and agents are waited for.
JOBS ?= 4
# A test that hangs ends with the stacks of its threads. No test comes near this bound, however busy the machine is.
TIMEOUT := --timeout 900
test-long fleetdays nights mutations faults planted: TIMEOUT := --timeout 3600
PYTEST = $(RUN) -m pytest -n $(JOBS) $(TIMEOUT)
# Each of these processes has a Slurm, or hosts, of its own.
slurm faults test-services: JOBS := 3
# Tests start Hostler some hundred times: compiled once, whatever the environment says, each start costs a fifth less.
unexport PYTHONDONTWRITEBYTECODE
# The three tiers: every test belongs to exactly one of them (tests/README.md).
QUICK := not services and not long
SERVICES := services and not long
LONG := long

.PHONY: help env demo dist test test-services test-long gpu slurm ray browser canary api lint docs format reference \
	bench campaign fleetdays nights mutations faults rigs planted chaos town soak seeds fuzz fuzz-bytes mutants hostile clean
.DEFAULT_GOAL := demo

help: ## this list, with times on 2 idle cores once installed
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## real sweeps and scripts on this machine (5 min)
	@scripts/make-env kernels,train,eval
	@rm -rf $(STATE)
	@.venv/bin/hostler up --until-idle --state-dir $(STATE) --port 0 examples/laptop.yaml
	@printf '\nYour own work:  . .venv/bin/activate && hostler init && hostler up fleet.yaml --detach\n'

env: ## the environment of the tests in .venv (3 min)
	$(ENV)

# `build` makes the wheel from the sdist, so the sdist has every file that a wheel needs.
dist: ## sdist and wheel in dist/, checked by twine (1 min)
	@scripts/make-env dev
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(RUN) -m build
	$(RUN) -m twine check --strict dist/*

# ---- tests: three tiers ----

# ARGS=tests/core plays a part, and ARGS='-k ledger', which has to collect all tests first.
test: ## unit, property, main paths end to end (10 min)
	$(ENV)
	$(PYTEST) --hypothesis-profile same-examples -m "$(QUICK)" $(ARGS)

# Slurm is waited for most of the time: the browser and Ray, which cannot be shared out to processes, go on beside it.
# Ray would put its workers behind all other processes. Each part is played, whatever becomes of the others. pytest ends
# with 5 where a part has none of the tests that ARGS selects: one part must have some.
test-services: ## PostgreSQL, Slurm, Ray, Prometheus, browser (25 min)
	@scripts/make-env $(EXTRAS),ray
	@$(RUN) scripts/vendored.py browser
	@mkdir -p build; rm -f build/services-ended
	@{ scripts/own-network $(RUN) -m pytest $(TIMEOUT) tests/browser $(ARGS); ended=$$?; \
	RAY_worker_niceness=0 $(RUN) -m pytest $(TIMEOUT) -m "$(SERVICES) and ray" $(ARGS); \
	echo "$$ended $$?" >build/services-ended; } >build/services.log 2>&1 & \
	$(PYTEST) -m "$(SERVICES) and not ray" --ignore tests/browser $(ARGS); ended=$$?; \
	wait; cat build/services.log; ended="$$ended $$(cat build/services-ended || echo 1)"; \
	echo "hostler: pytest ended with $$ended (services, browser, Ray)"; \
	case " $$ended " in *" 0 "*) ;; *) exit 1 ;; esac; \
	for each in $$ended; do [ $$each = 0 ] || [ $$each = 5 ] || exit 1; done

test-long: ## campaigns, simulations, canary, fuzz (over an hour)
	$(ENV)
	$(PYTEST) -m "$(LONG)" $(ARGS)

# ---- what needs a GPU ----

# ARGS='detection binding' plays these checks alone. Skipped, with the reason, on a machine without an NVIDIA GPU.
gpu: ## checks on a machine with an NVIDIA GPU (5 min)
	$(ENV)
	$(RUN) -m tests.gpu $(ARGS)

# ---- parts of the tiers ----

slurm: ## a real Slurm, a part of test-services (10 min)
	$(ENV)
	$(PYTEST) -m "slurm" $(ARGS)

ray: ## a real Ray cluster, a part of test-services (10 min)
	@scripts/make-env $(EXTRAS),ray
	$(RUN) -m pytest $(TIMEOUT) -m "ray" $(ARGS)

browser: ## the dashboard in Chromium, a part of test-services (3 min)
	$(ENV)
	@$(RUN) scripts/vendored.py browser
	scripts/own-network $(RUN) -m pytest $(TIMEOUT) tests/browser $(ARGS)

canary: ## loops that learn, a part of test-long (6 min)
	$(ENV)
	$(RUN) -m pytest $(TIMEOUT) tests/canary $(ARGS)

# ---- campaigns: what test-long plays, longer ----

api: ## the HTTP API against its document (10 min)
	$(ENV)
	API_EXAMPLES=100 $(PYTEST) tests/web/test_schema.py $(ARGS)

campaign: ## crash test: 100 kills of each kind (15 min)
	$(ENV)
	CHAOS_KILLS=100 $(RUN) -m pytest tests/chaos $(ARGS)

# Another node floods, lies about the work of others and hangs up meanwhile. HOSTILE_MIN sets another time.
hostile: ## 30 minutes of kills beside a hostile node (31 min)
	$(ENV)
	HOSTILE_MIN=$${HOSTILE_MIN:-30} $(RUN) -m pytest -s tests/chaos -k lies $(ARGS)

# Every invariant is checked after every step. FLEET_DAYS, FAULT_SEEDS, LOOP_SEEDS, TWO_SEEDS set other numbers.
fleetdays: ## 1,000 virtual days, 1,700 small worlds (15 min)
	$(ENV)
	FLEET_DAYS=$${FLEET_DAYS:-1000} FAULT_SEEDS=$${FAULT_SEEDS:-1000} LOOP_SEEDS=$${LOOP_SEEDS:-200} \
		TWO_SEEDS=$${TWO_SEEDS:-500} $(PYTEST) tests/simulation/test_fleets.py \
		tests/simulation/test_faults.py::test_nothing_is_lost \
		tests/simulation/test_loops.py::test_nothing_of_a_loop_is_lost_or_doubled \
		tests/simulation/test_two_controllers.py $(ARGS)

# A world that fails prints the command that plays it again.
nights: ## 10,000 worlds with several controllers (20 min)
	$(ENV)
	TWO_SEEDS=10000 $(PYTEST) tests/simulation/test_two_controllers.py $(ARGS)

mutations: ## how soon each planted bug is found (10 min)
	$(ENV)
	MUTATION_SEEDS=1000 $(PYTEST) -rP tests/simulation/test_mutations.py $(ARGS)

# `python scripts/mutants.py --again` plays those that survived the last run, `--group ledger` the drawn ones of one group.
mutants: ## 35 defects by hand, 200 drawn, against their tests (1 h)
	@scripts/make-env $(EXTRAS),mutants
	$(RUN) scripts/mutants.py --jobs 2 $(ARGS)

# Four hosts in namespaces, faults as long as in life; a controller that dies at 85 steps of fetching, copying, deleting.
faults: ## every fault of hosts, every fault point (15 min, root)
	$(ENV)
	LAB_FAULTS=all $(PYTEST) tests/lab/test_faults.py tests/integration/test_fault_points.py $(ARGS)

rigs: ## 26 GPUs on three rigs end together (5 min, root)
	$(ENV)
	LAB_RIGS_S=150 $(RUN) -m pytest -s tests/lab/test_rigs.py $(ARGS)

planted: ## 1,000 planted seeds; 200 sets of chance draws (5 min)
	$(ENV)
	PLANTED=1000 PLANTED_OPENCL=1 NULL_SETS=200 $(PYTEST) -rP tests/workloads/sieve/campaign $(ARGS)

chaos: ## a host is destroyed every minute (25 min, root)
	$(ENV)
	LAB_CHAOS_MIN=20 $(RUN) -m pytest -s tests/lab/test_chaos.py $(ARGS)

# TOWN_SEED, printed by each run, plays the same plan again.
town: ## controllers, database, hosts under faults (35 min, root)
	@scripts/make-env $(EXTRAS),postgres
	TOWN_MINUTES=$${TOWN_MINUTES:-30} TOWN_SEED=$${TOWN_SEED:-1} $(RUN) -m pytest -s tests/lab/test_town.py $(ARGS)

# Memory, open files, journal and WAL of 730 virtual days, and of two real hours at full load on PostgreSQL.
soak: ## nothing grows but by work (3 h)
	@scripts/make-env $(EXTRAS),postgres
	SOAK_DAYS=$${SOAK_DAYS:-730} $(RUN) -m pytest -s tests/simulation/test_soak.py $(ARGS)
	SOAK_MINUTES=$${SOAK_MINUTES:-120} $(RUN) -m pytest -s tests/integration/test_soak.py $(ARGS)

# The project must not lie below /tmp.
seeds: ## all 2^32 seeds of CPython's random (6 min, root)
	$(ENV)
	LAB_SEEDS=32 $(RUN) -m pytest -s tests/lab/test_seeds.py $(ARGS)

# Changed messages of nodes, bodies, jobs files and fleet files, to controllers on SQLite and PostgreSQL. What breaks one is kept below
# tests/fuzz/kept, where `make test` tries it again. ARGS='--seed 29 messages' plays one reader with that seed.
FUZZ_INPUTS ?= 10000
fuzz: ## structured fuzzing, 10,000 inputs a reader (10 min)
	@scripts/make-env $(EXTRAS),postgres
	nice $(RUN) -m tests.fuzz.structured.campaign --inputs $(FUZZ_INPUTS) $(ARGS)

# 14 readers of foreign text under atheris.
FUZZ_S ?= 60
fuzz-bytes: ## fuzzing by coverage, 14 targets (15 min)
	@scripts/make-env $(EXTRAS),fuzz
	nice $(RUN) -m tests.fuzz.campaign --seconds $(FUZZ_S) $(ARGS)

# ---- code and documents ----

lint: ## format, style, types, layers, documents (2 min)
	$(ENV)
	$(RUN) -m ruff format --check src tests benchmarks scripts
	$(RUN) -m ruff check src tests benchmarks scripts
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) scripts/make_reference.py --check
	$(RUN) scripts/make_schema.py --check
	$(RUN) scripts/check_docs.py

# A broken link, a wrong anchor or a page outside of the navigation (zensical.toml) is an error.
docs: ## the documentation site in build/site (20 s)
	$(ENV)
	$(RUN) scripts/make_site.py

format: ## corrects format and simple faults of style (1 s)
	$(ENV)
	$(RUN) -m ruff format src tests benchmarks scripts
	$(RUN) -m ruff check --fix src tests benchmarks scripts

reference: ## writes the generated reference again (10 s)
	$(ENV)
	$(RUN) scripts/make_reference.py
	$(RUN) scripts/make_schema.py

bench: ## every benchmark; writes docs/performance.md (hours)
	$(ENV)
	$(RUN) benchmarks/run_all.py $(ARGS)

clean: ## removes what was made here (1 s)
	rm -rf .venv build dist .cache .mypy_cache .ruff_cache .hypothesis

# `tests` is a folder: without this rule `make tests` would call it up to date, and succeed without playing any test.
.PHONY: tests
tests:
	@echo "make: tests is a folder; the target that plays the tests is: make test" >&2; exit 2
