"""Again or not: what last words mean, budgets by failure class, rests that double, places to keep away from."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.fleet import DeviceSpec
from hostler.model.work import DEFAULT_BUDGETS, DeviceKind, FailureClass, Retry
from hostler.policy import retry
from hostler.policy.fit import Gate
from hostler.policy.retry import Where, classify

COUNTS = st.dictionaries(st.sampled_from(FailureClass), st.integers(0, 100))
EXIT, SIGNAL, MEMORY = FailureClass.EXIT, FailureClass.SIGNAL, FailureClass.MEMORY
IMPORT, DEVICE, LOST = FailureClass.IMPORT, FailureClass.DEVICE, FailureClass.LOST

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'
TORCH_HINTS = dedent(
    """\
    CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
    For debugging consider passing CUDA_LAUNCH_BLOCKING=1
    Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

    """  # noqa: E501
)


def gpu(vram_gb: float | None = 24.0, name: str = "n/cuda0") -> DeviceSpec:
    kind = DeviceKind.CPU if "cpu" in name else DeviceKind.CUDA
    return DeviceSpec(id=name, node=name.partition("/")[0], kind=kind, index=0, vram_gb=vram_gb)


class TestLastWords:
    @pytest.mark.parametrize(
        ("text", "failure"),
        [
            ("ModuleNotFoundError: No module named 'einops'", IMPORT),
            ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", IMPORT),
            ("ImportError: cannot import name 'packaging' from 'pkg_resources'", IMPORT),
            ("OSError: libGL.so.1: cannot open shared object file: No such file or directory", IMPORT),
            ("AssertionError: Torch not compiled with CUDA enabled", IMPORT),
            ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", IMPORT),
            ("RuntimeError: CUDA error: no kernel image is available for execution on the device", IMPORT),
            ("RuntimeError: HIP error: invalid device function", IMPORT),
            ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity)", MEMORY),
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total", MEMORY),
            ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", MEMORY),
            ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.00 GiB.", MEMORY),
            ("RuntimeError: CUDA error: out of memory\n" + TORCH_HINTS, MEMORY),
            ("torch.AcceleratorError: CUDA error: out of memory\n" + TORCH_HINTS, MEMORY),
            ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", MEMORY),
            ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to", MEMORY),
            ("numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc gives CUDA_ERROR_OUT_OF_MEMORY", MEMORY),
            ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes", MEMORY),
            ("MemoryError", MEMORY),
            ("MemoryError: Unable to allocate 12.0 GiB for an array with shape (40000, 40000)", MEMORY),
            ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.00 TiB for an array", MEMORY),
            ("OSError: [Errno 12] Cannot allocate memory", MEMORY),
            ("RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
             "you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)", MEMORY),
            ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + TORCH_HINTS, DEVICE),
            ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n" + TORCH_HINTS, DEVICE),
            ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", DEVICE),
            ("RuntimeError: CUDA error: no CUDA-capable device is detected", DEVICE),
            ("RuntimeError: CUDA error: unknown error\n" + TORCH_HINTS, DEVICE),
            ("RuntimeError: HIP error: no ROCm-capable device is detected", DEVICE),
            ("RuntimeError: No CUDA GPUs are available", DEVICE),
            ("RuntimeError: No HIP GPUs are available", DEVICE),
            ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", DEVICE),
            ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
             "calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
             DEVICE),
            ("pynvml.NVMLError_GpuIsLost: GPU is lost", DEVICE),
            ("pynvml.nvml.NVMLError_DriverNotLoaded: Driver Not Loaded", DEVICE),
            ("numba.cuda.cudadrv.error.CudaSupportError: Error at driver init: \n"
             "Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)", DEVICE),
            ("numba.cuda.cudadrv.driver.CudaAPIError: [214] Call to cuMemcpyDtoH results in "
             "CUDA_ERROR_ECC_UNCORRECTABLE", DEVICE),
            ("cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device", DEVICE),
            ("pycuda._driver.RuntimeError: cuInit failed: no CUDA-capable device is detected", DEVICE),
            ("RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for platform",
             DEVICE),
            # What is the program's own fault, though it speaks of CUDA.
            ("RuntimeError: CUDA error: device-side assert triggered\n" + TORCH_HINTS, EXIT),
            ("RuntimeError: CUDA error: an illegal memory access was encountered\n" + TORCH_HINTS, EXIT),
            ("RuntimeError: CUDA error: misaligned address", EXIT),
            ("RuntimeError: CUDA error: invalid device ordinal", EXIT),
            ("RuntimeError: Expected all tensors to be on the same device, but found at least two devices", EXIT),
            ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", EXIT),
            ("ValueError: batch must not be out of memory order", EXIT),
            ("AssertionError: expected ImportError: it imported", EXIT),
            ("KeyboardInterrupt", EXIT),
            ("FileNotFoundError: [Errno 2] No such file or directory: 'data.npz'", EXIT),
        ],
    )  # fmt: skip
    def test_classify_reads_python_tracebacks(self, text: str, failure: FailureClass) -> None:
        for prefix in ("", "[rank3]: ", "(train pid=71, ip=10.0.0.2) "):
            told = "".join(f"{prefix}{line}\n" for line in (TRACE + text).splitlines())
            assert classify(1, None, None, told).failure is failure, told

    @pytest.mark.parametrize(
        ("code", "signal", "text", "failure"),
        [
            (127, None, "bash: line 1: blender: command not found", IMPORT),
            (127, None, "sh: 1: blender: not found", IMPORT),
            (127, None, "/usr/bin/env: 'python3.13': No such file or directory", IMPORT),
            (127, None, None, IMPORT),
            (126, None, "bash: ./tool: cannot execute binary file: Exec format error", IMPORT),
            (127, None, "./sim: error while loading shared libraries: libcublas.so.12: cannot open shared object file: "
             "No such file or directory", IMPORT),
            (1, None, "./sim: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by ./sim)",
             IMPORT),
            (1, None, "/usr/bin/python3: No module named torch", IMPORT),
            (2, None, "python3: can't open file '/srv/train.py': [Errno 2] No such file or directory", IMPORT),
            (None, 6, "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
             MEMORY),
            (None, 6, "memory allocation of 17179869184 bytes failed", MEMORY),
            (2, None, "fatal error: runtime: out of memory", MEMORY),
            (1, None, 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat A.main(A.java:3)',
             MEMORY),
            (None, 9, "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks", MEMORY),
            (1, None, "CUDA error: out of memory", MEMORY),
            (1, None, "GPUassert: out of memory sim.cu 71", MEMORY),
            (1, None, "CUDA error 100 at sim.cu:20: no CUDA-capable device is detected", DEVICE),
            (9, None, "Failed to initialize NVML: Driver/library version mismatch", DEVICE),
            (1, None, "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error", DEVICE),
            (1, None, "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system",
             DEVICE),
            (None, 6, "terminate called after throwing an instance of 'c10::Error'\n"
             "  what():  CUDA error: uncorrectable ECC error encountered\n" + TORCH_HINTS
             + "Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:44:\n"
             + "".join(f"frame #{at}: <unknown function> + 0x{at:x}\n" for at in range(20)), DEVICE),
            (None, 6, "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 0 "
             "Rank 0] Process group watchdog thread terminated with exception: CUDA error: the launch timed out and "
             "was terminated", DEVICE),
            (None, 6, "terminate called after throwing an instance of 'c10::Error'\n"
             "  what():  CUDA error: device-side assert triggered\n" + TORCH_HINTS, SIGNAL),
            (None, 11, "Memory access fault by GPU node-1 on address 0x7f. Reason: Page not present", SIGNAL),
            (None, 9, None, SIGNAL),
            (137, None, None, SIGNAL),
            (139, None, "Segmentation fault (core dumped)", SIGNAL),
            (255, None, "", EXIT),
            (3, None, "error: --board: no such board", EXIT),
        ],
    )  # fmt: skip
    def test_classify_reads_exit_codes_and_output_of_other_programs(
        self, code: int | None, signal: int | None, text: str | None, failure: FailureClass
    ) -> None:
        assert classify(code, signal, None, text).failure is failure

    @pytest.mark.parametrize(
        ("signal", "text"),
        [
            (None, TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + TORCH_HINTS),
            (None, TRACE + "torch.AcceleratorError: HIP error: an illegal memory access was encountered"),
            (None, TRACE + "RuntimeError: CUDA error: unspecified launch failure\n" + TORCH_HINTS),
            (None, TRACE + "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
            (None, TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling "
             "`cublasSgemm( handle)`"),
            (None, TRACE + "numba.cuda.cudadrv.driver.CudaAPIError: [700] Call to cuMemcpyDtoH results in "
             "CUDA_ERROR_ILLEGAL_ADDRESS"),
            (None, TRACE + "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorIllegalAddress: an illegal "
             "memory access was encountered"),
            (None, "CUDA error 700 at sim.cu:88: an illegal memory access was encountered"),
            (None, "GPUassert: an illegal memory access was encountered sim.cu 88"),
            (6, "terminate called after throwing an instance of 'c10::Error'\n"
             "  what():  CUDA error: an illegal memory access was encountered\n" + TORCH_HINTS),
            (6, "Memory access fault by GPU node-2 (Agent handle: 0x5581c0) on address 0x7f1e. Reason: Page not "
             "present or supervisor privilege."),
            (6, ":0:rocdevice.cpp :2993: 71 us: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: "
             "An HSAIL operation resulted in a hardware exception. code: 0x1016"),
            (9, "NVRM: Xid (PCI:0000:41:00): 31, pid=7100, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS"),
        ],
    )  # fmt: skip
    def test_what_may_be_either_ones_fault_stays_the_jobs_but_is_marked(self, signal: int | None, text: str) -> None:
        told = classify(None if signal else 1, signal, None, text)
        assert (told.failure, told.doubtful) == (SIGNAL if signal else EXIT, True)
        assert not classify(None if signal else 1, signal, None, text, gpu=False).doubtful

    @pytest.mark.parametrize(
        ("text", "failure"),
        [
            ("RuntimeError: CUDA error: device-side assert triggered\n" + TORCH_HINTS, EXIT),
            ("RuntimeError: HIP error: device-side assert triggered\n" + TORCH_HINTS, EXIT),
            ("RuntimeError: CUDA error: misaligned address\n" + TORCH_HINTS, EXIT),
            ("RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM", EXIT),
            ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a "
             "non-contiguous input.", EXIT),
            ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", MEMORY),
            ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + TORCH_HINTS, DEVICE),
        ],
    )  # fmt: skip
    def test_classify_leaves_no_doubt_about_known_errors(self, text: str, failure: FailureClass) -> None:
        told = classify(1, None, None, TRACE + text)
        assert (told.failure, told.doubtful) == (failure, False)

    def test_a_fault_that_the_program_caught_is_no_cause(self) -> None:
        text = TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + "tried again\n" * 20
        assert not classify(1, None, None, text + TRACE + "ValueError: too few samples").doubtful

    def test_an_exception_that_was_survived_is_no_cause(self) -> None:
        survived = TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        assert classify(1, None, None, survived + TRACE + "ValueError: no such move\n").failure is EXIT
        assert classify(1, None, None, survived + TRACE + "Diverged\n").failure is EXIT
        assert classify(None, 11, None, survived).failure is SIGNAL
        assert classify(1, None, None, survived + "epoch 1 done\n" * 11 + "bad config\n").failure is EXIT
        warned = "CUDA error: out of memory\nhalving the batch\nhalving the batch\nno space left\n"
        assert classify(1, None, None, warned).failure is EXIT

    def test_the_direct_cause_counts_and_what_happened_while_handling_it_does_not(self) -> None:
        cause = TRACE + "ModuleNotFoundError: No module named 'flash_attn'\n\n"
        direct = "The above exception was the direct cause of the following exception:\n\n"
        during = "During handling of the above exception, another exception occurred:\n\n"
        final = TRACE + "RuntimeError: the engine did not start\n"
        assert classify(1, None, None, cause + direct + final).failure is IMPORT
        assert classify(1, None, None, cause + during + final).failure is EXIT

    def test_the_agents_word_counts_for_more(self) -> None:
        text = TRACE + "ModuleNotFoundError: No module named 'x'"
        for reason, failure in retry.REASONS.items():
            assert classify(1, None, reason, text).failure is failure

    def test_without_a_gpu_no_device_failed(self) -> None:
        text = TRACE + "RuntimeError: No CUDA GPUs are available"
        assert classify(1, None, None, text, gpu=False).failure is EXIT
        assert classify(1, None, None, text).failure is DEVICE

    def test_whose_memory_it_was(self) -> None:
        assert classify(1, None, None, TRACE + "torch.OutOfMemoryError: CUDA out of memory.").vram
        assert classify(1, None, None, TRACE + "cupy.cuda.memory.OutOfMemoryError: Out of memory").vram
        assert not classify(1, None, None, TRACE + "MemoryError").vram
        assert not classify(None, 9, "memory", None).vram
        assert not classify(1, None, "memory", TRACE + "MemoryError").vram
        assert classify(1, None, "memory", TRACE + "torch.OutOfMemoryError: CUDA out of memory.").vram

    def test_it_says_what_it_concluded_from(self) -> None:
        found = classify(1, None, None, TRACE + "RuntimeError: No CUDA GPUs are available")
        assert found.why == "exit status 1: RuntimeError: No CUDA GPUs are available"
        own = classify(1, None, None, TRACE + "RuntimeError: CUDA error: device-side assert triggered\n" + TORCH_HINTS)
        assert own.why == "exit status 1: RuntimeError: CUDA error: device-side assert triggered"
        assert classify(2, None, None, "usage: x\nx: error: no y\n").why == "exit status 2: x: error: no y"
        assert classify(None, 9, None, "").why == "ended by signal 9"
        assert classify(1, None, None, "y" * 5000).why == "exit status 1: " + "y" * retry.TOLD

    @settings(max_examples=40)
    @given(st.text(max_size=300), st.sampled_from([None, 6, 9, 11]))
    def test_any_text_is_read(self, text: str, signal: int | None) -> None:
        found = classify(None if signal else 1, signal, None, text)
        assert found.failure in FailureClass
        assert len(found.why) < 300

    def test_long_hostile_text_is_read_in_no_time(self) -> None:
        for part in ("a.", "(", "[rank1]: ", "CUDA error 1 at a:1", "Error", "(a pid=1", " "):
            classify(1, None, None, part * (2048 // len(part)))


class TestVerdict:
    @settings(max_examples=40)
    @given(COUNTS, st.sampled_from(FailureClass), st.integers(1, 100))
    def test_again_until_the_budget_of_the_class_is_used(
        self, failures: dict[FailureClass, int], latest: FailureClass, count: int
    ) -> None:
        verdict = retry.verdict(Retry(), {**failures, latest: count}, latest)
        assert verdict.again is (count < DEFAULT_BUDGETS[latest])
        assert str(latest) in verdict.why
        assert 0 <= verdict.rest_s <= Retry().backoff_max_s

    @pytest.mark.parametrize("failure", FailureClass)
    def test_every_class_has_a_budget_and_the_owner_may_set_it(self, failure: FailureClass) -> None:
        assert DEFAULT_BUDGETS[failure] >= 1
        policy = Retry(max_attempts={failure: 99})
        assert retry.verdict(policy, {failure: 98}, failure).again
        assert not retry.verdict(policy, {failure: 99}, failure).again

    @pytest.mark.parametrize("latest", [EXIT, SIGNAL])
    def test_what_may_be_the_devices_fault_is_tried_once_more_elsewhere(self, latest: FailureClass) -> None:
        first = retry.verdict(Retry(), {latest: 1}, latest, doubtful=True)
        assert (first.again, first.avoid) == (True, "device")
        assert first.avoid_s > 0
        assert not retry.verdict(Retry(), {latest: 2}, latest, doubtful=True).again
        assert not retry.verdict(Retry(max_attempts={latest: 1}), {latest: 1}, latest, doubtful=True).again
        assert retry.verdict(Retry(), {latest: 1}, latest).avoid is None

    def test_lost_nodes_and_user_errors_have_separate_budgets(self) -> None:
        failures = {LOST: 9, EXIT: 1}
        assert retry.verdict(Retry(), failures, EXIT).again
        assert retry.verdict(Retry(), failures, LOST).again

    def test_rests_double_up_to_the_most(self) -> None:
        policy = Retry(max_attempts={EXIT: 10**6}, backoff_s=2.0, backoff_max_s=100.0)
        rests = [retry.verdict(policy, {EXIT: n}, EXIT).rest_s for n in (1, 2, 3, 6, 7, 10**5)]
        assert rests == [2.0, 4.0, 8.0, 64.0, 100.0, 100.0]

    @pytest.mark.parametrize("blameless", [LOST, DEVICE])
    def test_whose_node_or_device_failed_does_not_rest(self, blameless: FailureClass) -> None:
        failures = {blameless: 3, EXIT: 1}
        assert retry.verdict(Retry(), failures, blameless).rest_s == 0.0
        assert retry.verdict(Retry(backoff_s=3), failures, EXIT).rest_s == 3.0

    def test_elsewhere(self) -> None:
        kinds = {each: retry.verdict(Retry(), {each: 0}, each).avoid for each in FailureClass}
        assert {each: avoid for each, avoid in kinds.items() if avoid is not None} == {
            LOST: "node", DEVICE: "device", FailureClass.SPAWN: "node", IMPORT: "node", MEMORY: "node",
            FailureClass.FILES: "node",
        }  # fmt: skip

    def test_what_lacked_vram_wants_a_bigger_device_or_a_smaller_batch(self) -> None:
        verdict = retry.verdict(Retry(), {MEMORY: 1}, MEMORY, Where(vram_gb=24.0), vram=True)
        assert (verdict.again, verdict.vram_above, verdict.batch_scale, verdict.avoid) == (True, 24.0, 0.5, None)
        small, big, cpu = gpu(24.0), gpu(32.0), gpu(None, "n/cpu0")
        assert [retry.scale_on(0.5, 24.0, each) for each in (small, big, cpu, gpu(None))] == [0.5, 1.0, 1.0, 0.5]

    def test_the_batch_is_halved_again_and_again_but_not_to_nothing(self) -> None:
        scale, seen = 1.0, []
        for _ in range(6):
            scale = retry.verdict(Retry(), {MEMORY: 1}, MEMORY, Where(batch_scale=scale)).batch_scale
            seen.append(scale)
        assert seen == [0.5, 0.25, 0.125, 0.0625, 0.0625, 0.0625]

    def test_on_a_shared_device_the_neighbours_may_have_had_it(self) -> None:
        where = Where(vram_gb=24.0, shared=True)
        verdict = retry.verdict(Retry(), {MEMORY: 1}, MEMORY, where, vram=True)
        assert (verdict.vram_above, verdict.batch_scale, verdict.avoid) == (None, 1.0, "device")

    def test_more_memory_of_the_host_is_elsewhere(self) -> None:
        verdict = retry.verdict(Retry(), {MEMORY: 1}, MEMORY, Where(vram_gb=24.0))
        assert (verdict.vram_above, verdict.batch_scale, verdict.avoid) == (None, 0.5, "node")

    def test_a_device_of_unknown_vram_is_left(self) -> None:
        verdict = retry.verdict(Retry(), {MEMORY: 1}, MEMORY, Where(), vram=True)
        assert (verdict.vram_above, verdict.batch_scale, verdict.avoid) == (None, 0.5, "device")


class TestGate:
    def test_devices_and_nodes_until_it_is_over(self) -> None:
        for place in ("n", "n/cuda0"):
            refused = retry.refusal({place: 100.0}, None, 0.0, gpu(), 40.0)
            assert refused is not None
            assert refused.gate is Gate.FAILED
            assert refused.why == f"it failed on {place}, keeps away for 60 s more"
            assert retry.refusal({place: 100.0}, None, 0.0, gpu(), 100.0) is None
            assert retry.refusal({place: 100.0}, None, 0.0, gpu(name="m/cuda0"), 40.0) is None

    def test_more_vram_until_it_is_over(self) -> None:
        refused = [
            retry.refusal({}, 24.0, 100.0, each, 40.0) is not None
            for each in (gpu(24.0), gpu(24.5), gpu(None), gpu(None, "n/cpu0"))
        ]
        assert refused == [True, False, True, False]
        assert retry.refusal({}, 24.0, 100.0, gpu(24.0), 100.0) is None

    @settings(max_examples=40)
    @given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.floats(0, 100)), st.floats(0, 100))
    def test_few_places_are_remembered_and_none_that_is_over(self, avoid: dict[str, float], now: float) -> None:
        kept = retry.remembered(avoid, "x", 101.0, now)
        assert kept["x"] == 101.0
        assert len(kept) <= retry.AVOIDED_MOST
        assert all(until > now for until in kept.values())
        assert all(until == avoid[name] for name, until in kept.items() if name != "x")
