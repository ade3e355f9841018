"""Again, elsewhere, smaller, or give up? By what a failed attempt said last, and by budgets for each class of failure.

A class decides whose fault it is: a node's that cannot start the program, a device's, that of too little memory, the
job's own. Only positive evidence moves a failure away from the job: a device that is blamed wrongly is lost for others.

Some errors are told by wrong programs and by broken devices in the same words: an illegal memory access, say. These
stay the job's own, but it is tried once more on another device, and `policy.quarantine` has what follows for the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from hostler.model.fleet import DeviceSpec
from hostler.model.record import record
from hostler.model.work import DEFAULT_BUDGETS, DeviceKind, FailureClass, Retry
from hostler.policy.fit import Gate, Refusal

BLAMELESS = frozenset({FailureClass.LOST, FailureClass.DEVICE})
"""What a job does not rest for: it was not its fault, and another place may do at once."""
AVOIDED: Mapping[FailureClass, tuple[Literal["device", "node"], float]] = {
    FailureClass.LOST: ("node", 300.0),
    FailureClass.DEVICE: ("device", 1800.0),
    FailureClass.SPAWN: ("node", 1800.0),
    FailureClass.IMPORT: ("node", 1800.0),
    FailureClass.FILES: ("node", 300.0),
    FailureClass.MEMORY: ("node", 1800.0),
}
"""What a job keeps away from after such a failure, and for how many seconds, if there is another place for it."""
DOUBTFUL_BUDGET = 2
"""Attempts that may end by what may be the device's fault as well as the job's: one more settles whose it is."""
AVOIDED_MOST = 8
"""Places that one job keeps away from at the same time; of more, those that are over first are forgotten."""
SCALE_STEP = 0.5
SCALE_LEAST = 1 / 16
CHILD_SIGNALS = frozenset({6, 7, 8, 9, 11, 15})
"""A shell tells that its child was ended by signal n by the exit status 128 + n."""
BARE_LINES = 2
"""Last lines in which a message that is no exception's is taken for the cause of the end."""
TRAILING_LINES = 10
"""Lines that may follow the exception that was the end: the rest of its message, and what is said on the way out."""
TOLD = 200
"""Characters of a line that are repeated."""

SHORT = "short"
"""What is said of an attempt whose allocation was over before it was; with a longer one it may be done."""
FULL = "full"
"""What is said of an attempt that its node did not start, because its disk has too little free space: not now, then."""
FULL_REST_S = 60.0
"""How long the job rests then, and FULL_AVOID_S how long it keeps away from the node, if there is another."""
FULL_AVOID_S = 300.0
COMMAND = "command"
"""What is said of an attempt whose program, script or folder is not on its node, or may not be used: it is tried on
another node, if there is one, and never again on that one."""
SCRIPT = "script"
"""What is said of an attempt whose program or script, a part of the job's own folder, is missing or may not be used:
the folder is the same on each node, so the job is not tried again."""
REFUSED = "refused"
"""What is said of an attempt whose order no process can be started from: it speaks against the job alone."""
ENVIRONMENT = "environment"
"""What is said of an attempt whose Python environment could not be built on its node; the job is not tried again."""
SECRET = "secret"  # noqa: S105 - a word of attempts
"""What is said of an attempt that lacks a secret which its job names; the job is not tried again."""
IMPORTS = "imports"
"""What is said of an attempt whose script imports modules that its interpreter lacks; as of `COMMAND`."""
PRINTED = " Its last lines:\n"
"""What stands between the reason of a job whose environment could not be built and what the build printed last."""
NEVER_S = 7 * 86_400.0
"""How long a job keeps away from a node that cannot run it as it is: as good as for ever."""
ENVIRONMENT_HELD_S = 1800.0
"""For so long an environment is not built again where its build has failed."""
SHORT_MOST = 10
"""Attempts of one job that may end so and are no failures: so often the time that it is given is doubled."""
REASONS: Mapping[str, FailureClass] = {
    "walltime": FailureClass.TIMEOUT,
    "memory": FailureClass.MEMORY,
    "spawn": FailureClass.SPAWN,
    COMMAND: FailureClass.SPAWN,
    SCRIPT: FailureClass.SPAWN,
    REFUSED: FailureClass.SPAWN,
    SECRET: FailureClass.SPAWN,
    ENVIRONMENT: FailureClass.IMPORT,
    IMPORTS: FailureClass.IMPORT,
    "lost": FailureClass.LOST,
    "unknown": FailureClass.LOST,
    "lease": FailureClass.LOST,
    SHORT: FailureClass.TIMEOUT,
    "files": FailureClass.FILES,
}
"""What the word of an agent (docs/reference/agent-protocol.md), or of a backend, for an end means."""


@record
class Diagnosis:
    """Why an attempt came to nothing."""

    failure: FailureClass
    why: str
    vram: bool = False
    """Whether the memory it lacked was the device's, not the host's."""
    doubtful: bool = False
    """Whether it is the job's own failure as far as is known, but may have been the device's."""


@record
class Where:
    """Where and how an attempt ran that failed."""

    vram_gb: float | None = None
    """Of its device; `None`: unknown, or it has none."""
    shared: bool = False
    """Whether others had the device at the same time."""
    batch_scale: float = 1.0
    """What it was told about its batch."""


@record
class Verdict:
    """What to do about a failed attempt."""

    again: bool
    rest_s: float
    why: str
    avoid: Literal["device", "node"] | None = None
    """Which of the places it failed at the next attempt keeps away from, if there is another."""
    avoid_s: float = 0.0
    """For how long, and how long `vram_above` holds."""
    vram_above: float | None = None
    """GB of VRAM of which the next device should have more."""
    batch_scale: float = 1.0
    """Share of its usual batch that the job should use on devices which have no more than that."""


ANYWHERE = Where()


def classify(
    exit_code: int | None, signal: int | None, reason: str | None, evidence: str | None, *, gpu: bool = True
) -> Diagnosis:
    """Why a process that failed did: by the agent's `reason`, then by its last words, then by its exit status.

    `evidence` is the end of its standard error. Of exceptions that a program has survived nothing is concluded: the
    last one tells, or the one it says was its direct cause. Without a `gpu` no device can have failed.
    """
    lines = _lines(evidence or "")
    found = _last_words(lines, signal)
    sign, line = found or (None, _end(lines))
    known = None if reason is None else REASONS.get(reason)
    if known is not None:
        vram = known is FailureClass.MEMORY and sign is not None and sign.vram
        return Diagnosis(failure=known, why=f"its node reported: {reason}", vram=vram)
    told = f"ended by signal {signal}" if signal is not None else f"exit status {exit_code}"
    why = f"{told}: {line[:TOLD]}" if line else told
    if sign is None or (sign.failure is FailureClass.DEVICE and not gpu):
        return Diagnosis(failure=_by_status(exit_code, signal), why=why)
    if sign.doubtful:
        return Diagnosis(failure=_by_status(exit_code, signal), why=why, doubtful=True)
    return Diagnosis(failure=sign.failure, why=why, vram=sign.vram)


def verdict(
    policy: Retry,
    failures: Mapping[FailureClass, int],
    latest: FailureClass,
    where: Where = ANYWHERE,
    *,
    vram: bool = False,
    doubtful: bool = False,
) -> Verdict:
    """Judge a job whose attempts failed `failures` times by class, the latest included; the rest as in `Diagnosis`.

    Waiting never lowers a job's rank: the rest delays the job, its place in the queue stays.
    """
    count = failures[latest]
    budget = policy.max_attempts.get(latest, DEFAULT_BUDGETS[latest])
    if doubtful:
        budget = min(budget, DOUBTFUL_BUDGET)
    if count >= budget:
        return Verdict(again=False, rest_s=0.0, why=f"{latest}: {count} of {budget} allowed attempts used")
    rest_s = _rest(policy, failures) if latest not in BLAMELESS else 0.0
    why = f"{latest}: attempt {count} of {budget} allowed, rest {rest_s:g} s"
    avoid, avoid_s = AVOIDED[FailureClass.DEVICE] if doubtful else AVOIDED.get(latest, (None, 0.0))
    base = Verdict(again=True, rest_s=rest_s, why=why, avoid=avoid, avoid_s=avoid_s, batch_scale=where.batch_scale)
    return _with_more_memory(base, where, vram) if latest is FailureClass.MEMORY else base


def refusal(
    avoid: Mapping[str, float], vram_above: float | None, vram_until: float, device: DeviceSpec, now: float
) -> Refusal | None:
    """Why a job that failed elsewhere should not run on this device; `None` where it may.

    `avoid` has devices and nodes, and until when. A device of unknown VRAM is not known to have more.
    """
    for place in (device.id, device.node):
        until = avoid.get(place, 0.0)
        if until > now:
            return Refusal(gate=Gate.FAILED, why=f"it failed on {place}, keeps away for {until - now:.0f} s more")
    if vram_above is None or vram_until <= now or _has_more(device, vram_above):
        return None
    size = "unknown" if device.vram_gb is None else f"{device.vram_gb:g} GB"
    why = f"it ran out of {vram_above:g} GB, that of {device.id} is {size}; smaller batches in {vram_until - now:.0f} s"
    return Refusal(gate=Gate.FAILED, why=why)


def scale_on(batch_scale: float, vram_above: float | None, device: DeviceSpec) -> float:
    """Share of its usual batch that a job should use on a device: all of it where that has more VRAM than ran out."""
    return 1.0 if vram_above is not None and _has_more(device, vram_above) else batch_scale


def remembered(avoid: Mapping[str, float], place: str, until: float, now: float) -> dict[str, float]:
    """The places to keep away from, one more among them; what is over and what is too much is forgotten."""
    both = {**avoid, place: max(until, avoid.get(place, 0.0))}
    current = sorted(((at, name) for name, at in both.items() if at > now), reverse=True)
    return {name: at for at, name in current[:AVOIDED_MOST]}


@record
class Sign:
    """Words that tell a class of failure. `bare`: also where they are no exception's; `doubtful` as in `Diagnosis`."""

    failure: FailureClass
    words: str
    vram: bool = False
    bare: bool = False
    doubtful: bool = False


HARDWARE = (
    "uncorrectable ECC error|uncorrectable NVLink error|hardware stack error|the launch timed out and was terminated|"
    "no (?:CUDA|ROCm)-capable device is detected|all CUDA-capable devices are busy or unavailable|"
    r"CUDA-capable device\(s\) is/are busy or unavailable|system not yet initialized|"
    "system has unsupported display driver|forward compatibility was attempted on non supported HW|unknown error"
)
"""What the CUDA and HIP runtimes call errors of a device or its driver; an assertion in a kernel is none of them."""
HARDWARE_NAMES = (
    r"CUDA_ERROR_(?:NO_DEVICE|ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|DEVICE_UNAVAILABLE|SYSTEM_NOT_READY|"
    r"SYSTEM_DRIVER_MISMATCH|HARDWARE_STACK_ERROR|COMPAT_NOT_SUPPORTED_ON_DEVICE|UNKNOWN)\b|"
    r"cudaError(?:NoDevice|ECCUncorrectable|NvlinkUncorrectable|DevicesUnavailable|SystemNotReady|"
    r"SystemDriverMismatch|HardwareStackError|Unknown)\b|hipError(?:NoDevice|ECCNotCorrectable|Unknown)\b"
)
EITHER = (
    "an illegal memory access was encountered|unspecified launch failure|an illegal instruction was encountered|"
    "invalid program counter"
)
"""What they call errors that wrong kernels make, and broken memory; a misaligned address or an assertion is the
program's alone."""
EITHER_NAMES = (
    r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED|ILLEGAL_INSTRUCTION|INVALID_PC)\b|"
    r"cudaError(?:IllegalAddress|LaunchFailure|IllegalInstruction|InvalidPc)\b|"
    r"hipError(?:IllegalAddress|LaunchFailure)\b"
)
LIBRARIES = (
    r"(?:CUDA error: |cuDNN error: |cuDNN Frontend error: .*)?"
    r"CU(?:DNN|BLAS|FFT|SOLVER|SPARSE)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)\b"
)
"""Libraries pass on that a kernel of theirs failed; what they were asked wrongly (`BAD_PARAM`) is the program's."""
RUNTIME = r"(?:(?:CUDA|HIP|cuda|hip)(?: runtime)? error(?: \d+)?(?: at [^:]+:\d+)?|GPUassert): "
WATCHDOG = r"(?:.* terminated with exception: )?"
"""How torch's process groups begin to tell of an error that another thread found."""

SIGNS = (
    Sign(failure=FailureClass.MEMORY, words=r"(?:CUDA|HIP) out of memory\b", vram=True, bare=True),
    Sign(failure=FailureClass.MEMORY, words=WATCHDOG + RUNTIME + r"out of memory(?: \S+ \d+)?$", vram=True, bare=True),
    Sign(failure=FailureClass.MEMORY, words=r"RESOURCE_EXHAUSTED: Out of memory|.*\bOOM when allocating\b", vram=True),
    Sign(failure=FailureClass.MEMORY, words=r"(?:CUDA error: )?CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED\b", vram=True),
    Sign(failure=FailureClass.MEMORY, words=r"cuDNN error: CUDNN_STATUS_ALLOC_FAILED\b", vram=True),
    Sign(
        failure=FailureClass.MEMORY,
        words=r".*(?:\bCUDA_ERROR_OUT_OF_MEMORY|\bcudaErrorMemoryAllocation|\bhipErrorOutOfMemory)\b",
        vram=True,
    ),
    Sign(
        failure=FailureClass.MEMORY,
        words=r"cuMemAlloc failed: out of memory|.*\bMEM_OBJECT_ALLOCATION_FAILURE\b",
        vram=True,
    ),
    Sign(failure=FailureClass.MEMORY, words=r"std::bad_alloc$"),
    Sign(failure=FailureClass.MEMORY, words=r".*DefaultCPUAllocator: (?:can't allocate|not enough) memory"),
    Sign(failure=FailureClass.MEMORY, words=r"\[Errno 12\] "),
    Sign(failure=FailureClass.MEMORY, words=r"memory allocation of \d+ bytes failed", bare=True),
    Sign(failure=FailureClass.MEMORY, words=r"fatal error: runtime: (?:cannot allocate|out of) memory", bare=True),
    Sign(failure=FailureClass.MEMORY, words=r"slurmstepd: error: Detected \d+ oom[_-]kill event", bare=True),
    Sign(failure=FailureClass.IMPORT, words=r"Torch not compiled with CUDA enabled"),
    Sign(failure=FailureClass.IMPORT, words=r"\S+\.so[.\d]*: cannot open shared object file"),
    Sign(failure=FailureClass.IMPORT, words=r"\S+: error while loading shared libraries: ", bare=True),
    Sign(failure=FailureClass.IMPORT, words=r"\S+: .*version .GLIBC(?:XX)?_[\d.]+' not found", bare=True),
    Sign(failure=FailureClass.IMPORT, words=r"\S*python[\d.]*: (?:No module named |can't open file )", bare=True),
    Sign(failure=FailureClass.IMPORT, words=r"The NVIDIA driver on your system is too old"),
    Sign(failure=FailureClass.IMPORT, words=RUNTIME + r"CUDA driver version is insufficient"),
    Sign(failure=FailureClass.IMPORT, words=RUNTIME + r"no kernel image is available for execution on the device"),
    Sign(failure=FailureClass.IMPORT, words=RUNTIME + r"(?:the provided PTX was compiled|invalid device function)"),
    Sign(failure=FailureClass.IMPORT, words=r".*\bhipErrorNoBinaryForGpu\b", bare=True),
    Sign(failure=FailureClass.IMPORT, words=r"Unable to initialize backend '\w+': .*not in the list of known backends"),
    Sign(failure=FailureClass.DEVICE, words=WATCHDOG + RUNTIME + f"(?:{HARDWARE})", bare=True),
    Sign(failure=FailureClass.DEVICE, words=rf"(?:Error at driver init:\s*)?.*(?:{HARDWARE_NAMES})"),
    Sign(failure=FailureClass.DEVICE, words=r"cu\w+ failed: (?:no CUDA-capable device is detected|unknown error)"),
    Sign(failure=FailureClass.DEVICE, words=r"No (?:CUDA|HIP) GPUs are available"),
    Sign(failure=FailureClass.DEVICE, words=r"Found no NVIDIA driver on your system"),
    Sign(failure=FailureClass.DEVICE, words=r"Unexpected error from (?:cuda|hip)GetDeviceCount\(\)"),
    Sign(failure=FailureClass.DEVICE, words=r"Unable to initialize backend '\w+': .*no supported devices found"),
    Sign(failure=FailureClass.DEVICE, words=r"Unable to determine the device handle for GPU", bare=True),
    Sign(failure=FailureClass.DEVICE, words=r"Failed to initialize NVML: ", bare=True),
    Sign(failure=FailureClass.DEVICE, words=r"NVRM: Xid \([^)]*\): (?:48|63|64|74|79|92|94|95|119|120),", bare=True),
    Sign(failure=FailureClass.DEVICE, words=r"NVRM: .*GPU has fallen off the bus", bare=True),
    Sign(failure=FailureClass.DEVICE, words=r"Unable to open /dev/kfd\b", bare=True),
    Sign(failure=FailureClass.DEVICE, words=WATCHDOG + RUNTIME + f"(?:{EITHER})", bare=True, doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=rf".*(?:{EITHER_NAMES})", doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=rf"cu\w+ failed: (?:{EITHER})", doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=LIBRARIES, bare=True, doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=r"NVRM: Xid \([^)]*\): (?:13|31|43|45),", bare=True, doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=r"Memory access fault by GPU node-\d+ ", bare=True, doubtful=True),
    Sign(failure=FailureClass.DEVICE, words=r".*\bHSA_STATUS_ERROR_EXCEPTION\b", bare=True, doubtful=True),
)
"""What known programs say of the cause of their end, in the order in which it is looked for.

Texts of error codes: the CUDA Driver and Runtime API's `cudaGetErrorString`, HIP's `hipGetErrorString`, NVML, and the
driver's catalogue of Xid errors, of which only those count that tell of hardware.
"""
NAMES: Mapping[str, Sign] = {
    r"ModuleNotFoundError|ImportError": Sign(failure=FailureClass.IMPORT, words=""),
    r"OutOfMemoryError": Sign(failure=FailureClass.MEMORY, words="", vram=True),
    r"\w*MemoryError": Sign(failure=FailureClass.MEMORY, words=""),
    r"NVMLError_(?:GpuIsLost|DriverNotLoaded|LibRmVersionMismatch|Unknown)": Sign(
        failure=FailureClass.DEVICE, words=""
    ),
}
"""Exceptions whose name says enough."""

_PREFIX = re.compile(r"(?:\[rank\d+\]: ?|\([\w.:]+ pid=\d+[^)]*\) ?)*")
_EXCEPTION = re.compile(
    r"(?P<module>(?:\w+\.)*)(?P<name>\w*(?:Error|Exception)\w*|KeyboardInterrupt|SystemExit)(?::|$)"
)
_JAVA = re.compile(r"(?:Exception in thread \".*\" )?java\.lang\.OutOfMemoryError\b")
_WHAT = re.compile(r"\s*what\(\): +")
_TRACEBACK = "Traceback (most recent call last):"
_CAUSED = "The above exception was the direct cause of the following exception:"
_WORDS = tuple((re.compile(sign.words, re.MULTILINE), sign) for sign in SIGNS)
_NAMES = tuple((re.compile(rf"(?:{name})\Z"), sign) for name, sign in NAMES.items())


def _by_status(exit_code: int | None, signal: int | None) -> FailureClass:
    """What the exit status alone tells; a shell has words of its own for a command that it cannot run."""
    if signal is not None or (exit_code is not None and exit_code - 128 in CHILD_SIGNALS):
        return FailureClass.SIGNAL
    return FailureClass.IMPORT if exit_code in (126, 127) else FailureClass.EXIT


def _lines(evidence: str) -> list[str]:
    stripped = (_PREFIX.sub("", line, count=1).rstrip() for line in evidence.splitlines())
    return [line for line in stripped if line and not line.startswith("frame #")]


def _end(lines: Sequence[str]) -> str:
    """The line that tells most of the end: that of the last exception, or else the last."""
    last = next(_messages(lines), None)
    if last is not None and last[1] is not None and last[0] >= len(lines) - 1 - TRAILING_LINES:
        return lines[last[0]].strip()
    return lines[-1].strip() if lines else ""


def _last_words(lines: Sequence[str], signal: int | None) -> tuple[Sign, str] | None:
    """What the last words are a sign of, and the line it is in."""
    for number in range(len(lines) - 1, max(len(lines) - 1 - BARE_LINES, -1), -1):
        sign = _sign("\n".join(lines[number:]), bare=True)
        if sign is not None:
            return sign, lines[number]
    # Python does not die of signals but of SIGABRT, which C++ dies of; an exception in its output was survived.
    return _exceptions(lines) if signal in (None, 6) else None


def _exceptions(lines: Sequence[str]) -> tuple[Sign, str] | None:
    """The last exception, or, where its sign is unknown, the one it came from."""
    first = max(len(lines) - 1 - TRAILING_LINES, 0)
    for number, message in _messages(lines):
        if message is None or number < first:
            return None
        first = 0
        sign = _sign("\n".join((message[1], *lines[number + 1 : number + 3])), bare=False) or _name_sign(message[0])
        if sign is not None:
            return sign, lines[number].strip()
        if not _was_caused(lines[:number]):
            return None
    return None


def _messages(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """Name and message of the exceptions, last first; `None` for one whose line nobody knows to be one's."""
    known = False
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        exception, what = _EXCEPTION.match(line), _WHAT.match(line)
        if exception is not None:
            yield number, (exception["name"], line[exception.end() :].strip())
            known = True
        elif what is not None:
            yield number, ("", line[what.end() :])
            known = True
        elif line == _TRACEBACK:
            if not known:
                yield number, None
            known = False
        elif _JAVA.match(line):
            yield number, ("MemoryError", line)
            known = True


def _was_caused(before: Sequence[str]) -> bool:
    """Whether the exception that these lines lead to says that another one was its direct cause."""
    start = next((at for at in range(len(before) - 1, -1, -1) if before[at] == _TRACEBACK), 0)
    return start > 0 and before[start - 1] == _CAUSED


def _name_sign(name: str) -> Sign | None:
    return next((sign for words, sign in _NAMES if words.match(name)), None)


def _sign(text: str, *, bare: bool) -> Sign | None:
    return next((sign for words, sign in _WORDS if (sign.bare or not bare) and words.match(text)), None)


def _rest(policy: Retry, failures: Mapping[FailureClass, int]) -> float:
    blamed = sum(count for kind, count in failures.items() if kind not in BLAMELESS)
    doublings = min(max(blamed - 1, 0), 62)
    return float(min(policy.backoff_s * 2**doublings, policy.backoff_max_s))


def _with_more_memory(base: Verdict, where: Where, vram: bool) -> Verdict:
    """A job that lacked memory: of a shared device another part, else a bigger device or a smaller batch."""
    if vram and where.shared:
        return replace(base, avoid="device")
    scale = max(where.batch_scale * SCALE_STEP, SCALE_LEAST)
    if not vram:
        return replace(base, batch_scale=scale)
    if where.vram_gb is None:
        return replace(base, avoid="device", batch_scale=scale)
    return replace(base, avoid=None, vram_above=where.vram_gb, batch_scale=scale)


def _has_more(device: DeviceSpec, vram_gb: float) -> bool:
    """Whether the device has more VRAM than so much; what has none has the host's memory."""
    return device.kind is DeviceKind.CPU or (device.vram_gb is not None and device.vram_gb > vram_gb)
