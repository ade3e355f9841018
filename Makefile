# make demo   the main job: real sweeps and scripts on this machine     make test   the whole test suite
# make static what the dashboard needs from npm; demo and test do it by themselves
# make lint   format, style, types, layers, documents                   make bench  every benchmark; rewrites docs/performance.md
# make canary the loop learns, and fails loudly with a defect            make campaign  the long crash tests
# make slurm  on a real Slurm, brought up on this machine where its packages are installed
# make ray    on a real Ray cluster, brought up on this machine; installs Ray (400 MB)
# make fleetdays  1,000 virtual days of fleets with faults, and 1,700 small worlds
# make nights  10,000 small worlds with several controllers     make mutations  planted bugs, each found within 1,000 of them
# make faults  hosts behind real SSH servers, cut off, killed and filled up (root); a controller killed at each step of its
#              fetching, copying and deleting                              make rigs  26 GPUs end together (root)
# make town    two controllers, their PostgreSQL and four hosts, cut apart, stopped, killed and filled up (root), half an hour
# make soak  24 simulated months of a fleet, and two hours of a real controller at full load: nothing grows
# make fuzz  every reader of foreign text under atheris, FUZZ_S seconds each (60)
# make planted  1,000 planted seeds of all generators are found, and 200 sets of draws by chance hold what chance foretells
PYTHON ?= python3
export PYTHON
RUN := .venv/bin/python
STATE := build/demo
# Tests side by side, more than there are cores: for more than half of their time they wait. None depends on speed.
JOBS ?= 5
# Each of these processes has a Slurm, or hosts, of its own.
slurm faults: JOBS := 3
# Tests start Hostler some hundred times: compiled once, whatever the environment says, each start costs a fifth less.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: fuzz demo static test slurm ray canary api lint format reference bench campaign fleetdays nights mutations faults rigs chaos town soak planted clean
.DEFAULT_GOAL := demo

demo:
	@scripts/make-env kernels,train,eval
	@$(RUN) scripts/make_static.py
	@rm -rf $(STATE)
	@.venv/bin/hostler up --until-idle --state-dir $(STATE) --port 0 examples/laptop.yaml

static:
	@scripts/make-env kernels,train,eval
	@$(RUN) scripts/make_static.py

test:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	@$(RUN) scripts/make_static.py --tests
	$(RUN) -m pytest -n $(JOBS) -m "not slurm and not ray" --ignore tests/canary $(ARGS)

# Everything that wants a real Slurm: faults, a login node, a loop, the guide. Skips, and says so, where there is none.
slurm:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	$(RUN) -m pytest -n $(JOBS) -m slurm --ignore tests/canary $(ARGS)

# Everything that wants a real Ray cluster, some minutes. The controller never imports Ray; trainings do, on its machines.
ray:
	@scripts/make-env kernels,train,eval,report,opt,rl,k8s,ray,dev
	$(RUN) -m pytest -m ray $(ARGS)

# Whole loops on 19 cells, about 4 minutes on 2 cores: they must learn, and must not with a deliberate defect.
canary:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	$(RUN) -m pytest tests/canary $(ARGS)

# The whole HTTP API against its document, 100 requests for each operation and way: about 10 minutes.
api:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	API_EXAMPLES=100 $(RUN) -m pytest -n $(JOBS) tests/web/test_schema.py $(ARGS)

lint:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	$(RUN) -m ruff format --check src tests benchmarks scripts
	$(RUN) -m ruff check src tests benchmarks scripts
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) scripts/make_reference.py --check
	$(RUN) scripts/make_schema.py --check
	$(RUN) scripts/check_docs.py

format:
	$(RUN) -m ruff format src tests benchmarks scripts
	$(RUN) -m ruff check --fix src tests benchmarks scripts

reference:
	$(RUN) scripts/make_reference.py
	$(RUN) scripts/make_schema.py

bench:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	$(RUN) benchmarks/run_all.py $(ARGS)

# The long version of the crash test: 100 kills of each kind. `make test` runs a short one.
campaign:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	CHAOS_KILLS=100 $(RUN) -m pytest tests/chaos $(ARGS)

# A thousand virtual days of small fleets with faults, every invariant checked after every step; a thousand small worlds
# in which everything goes wrong, 200 with loops, and 500 with several controllers. `make test` plays 20 days, 150, 30 and
# 50 worlds.
fleetdays:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	FLEET_DAYS=$${FLEET_DAYS:-1000} FAULT_SEEDS=$${FAULT_SEEDS:-1000} LOOP_SEEDS=$${LOOP_SEEDS:-200} \
		TWO_SEEDS=$${TWO_SEEDS:-500} $(RUN) -m pytest -n $(JOBS) tests/simulation/test_fleets.py \
		tests/simulation/test_faults.py::test_nothing_is_lost \
		tests/simulation/test_loops.py::test_nothing_of_a_loop_is_lost_or_doubled \
		tests/simulation/test_two_controllers.py $(ARGS)

# The long version of that: about 30 CPU-minutes. A world that fails says by which command it is played again.
nights:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	TWO_SEEDS=10000 $(RUN) -m pytest -n $(JOBS) tests/simulation/test_two_controllers.py $(ARGS)

# Planted bugs, one by one: how many worlds until each is found, and which invariant finds it.
mutations:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	MUTATION_SEEDS=1000 $(RUN) -m pytest -n $(JOBS) -rP tests/simulation/test_mutations.py $(ARGS)

# Four hosts in namespaces, everything that can befall them, for as long as it lasts in life: some 8 minutes. And a
# controller that dies at every step of fetching, copying and deleting, some 85 times.
faults:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	LAB_FAULTS=all $(RUN) -m pytest -n $(JOBS) tests/lab/test_faults.py tests/integration/test_fault_points.py $(ARGS)

# Three rigs, 26 GPUs, one sweep of two and a half minutes: within 3 % of what the measured speeds allow.
rigs:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	LAB_RIGS_S=150 $(RUN) -m pytest -s tests/lab/test_rigs.py $(ARGS)

# Seeds of all generators and call patterns, each searched by every method that applies, some by OpenCL too: 5 minutes.
planted:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	PLANTED=1000 PLANTED_OPENCL=1 NULL_SETS=200 $(RUN) -m pytest -n $(JOBS) -rP tests/workloads/sieve/campaign $(ARGS)

# Real self-play on four rented hosts, one of which is destroyed each minute, for twenty minutes and what it takes to end.
chaos:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	LAB_CHAOS_MIN=20 $(RUN) -m pytest -s tests/lab/test_chaos.py $(ARGS)

# Controllers, their database and hosts on machines of their own; every few seconds something befalls one of them, by a plan
# that TOWN_SEED makes. Then everything has to be done, and the journal, the hosts and the files are looked through.
town:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,postgres,dev
	TOWN_MINUTES=$${TOWN_MINUTES:-30} TOWN_SEED=$${TOWN_SEED:-1} $(RUN) -m pytest -s tests/lab/test_town.py $(ARGS)

# 730 virtual days of one fleet, and two real hours at full load on PostgreSQL: memory, open files, journal and WAL.
soak:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,postgres,dev
	SOAK_DAYS=$${SOAK_DAYS:-730} $(RUN) -m pytest -s tests/simulation/test_soak.py $(ARGS)
	SOAK_MINUTES=$${SOAK_MINUTES:-120} $(RUN) -m pytest -s tests/integration/test_soak.py $(ARGS)

# All 2^32 seeds of CPython's `random` on this machine and three hosts, much of which is killed every twenty seconds. It
# says how far from what the measured speeds allow. Some six minutes; the project must not lie below /tmp.
seeds:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev
	LAB_SEEDS=32 $(RUN) -m pytest -s tests/lab/test_seeds.py $(ARGS)

# What nodes, controllers, tools and files say that they should not: 13 targets, coverage-guided, one after the other. What
# breaks one is kept below tests/fuzz/kept, where `make test` tries it again. `make fuzz ARGS=fleet_file` is one alone.
FUZZ_S ?= 60
fuzz:
	@scripts/make-env kernels,train,eval,report,opt,rl,llm,k8s,dev,fuzz
	nice $(RUN) -m tests.fuzz.campaign --seconds $(FUZZ_S) $(ARGS)

clean:
	rm -rf .venv build dist src/hostler/web/static/vendor .mypy_cache .ruff_cache .hypothesis
