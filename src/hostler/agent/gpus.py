"""Asking a GPU through its driver's own library: memory that comes back as it was written, and a search on the card.

Formats: CUDA driver API, PTX ISA 3.2 (which every driver since 2013 takes), HIP runtime API.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any, List, Optional

_MEMORY_BYTES = 16 << 20
_PATTERNS = (0x5AA55AA5, 0xA55AA55A)
_THREADS = 256
_NOTHING = 0xFFFFFFFF
_DEVICE_TO_HOST = 2

PTX = b"""
.version 3.2
.target sm_30
.address_size 64

.visible .entry canary(
    .param .u64 found,
    .param .u32 start,
    .param .u32 count,
    .param .u32 steps,
    .param .u32 target
)
{
    .reg .pred %p<4>;
    .reg .u32 %r<12>;
    .reg .u64 %rd<3>;

    ld.param.u64 %rd1, [found];
    ld.param.u32 %r1, [start];
    ld.param.u32 %r2, [count];
    ld.param.u32 %r3, [steps];
    ld.param.u32 %r4, [target];
    mov.u32 %r5, %ctaid.x;
    mov.u32 %r6, %ntid.x;
    mov.u32 %r7, %tid.x;
    mad.lo.u32 %r8, %r5, %r6, %r7;
    setp.ge.u32 %p1, %r8, %r2;
    @%p1 bra DONE;
    add.u32 %r9, %r8, %r1;
    mov.u32 %r10, %r9;
STEP:
    setp.eq.u32 %p2, %r3, 0;
    @%p2 bra COMPARE;
    shl.b32 %r11, %r10, 13;
    xor.b32 %r10, %r10, %r11;
    shr.u32 %r11, %r10, 17;
    xor.b32 %r10, %r10, %r11;
    shl.b32 %r11, %r10, 5;
    xor.b32 %r10, %r10, %r11;
    sub.u32 %r3, %r3, 1;
    bra STEP;
COMPARE:
    setp.ne.u32 %p3, %r10, %r4;
    @%p3 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    red.global.min.u32 [%rd2], %r9;
DONE:
    ret;
}
"""
"""One thread for each seed; the least seed whose stream comes to the target is left in ``found``."""


class DriverError(Exception):
    """The driver, or the device, failed; the message says at what, and what to look at."""


def search_on_cuda(start: int, count: int, steps: int, target: int) -> Optional[int]:
    """The seed that the one CUDA device in sight finds, None if it finds none. Raises DriverError."""
    driver = _Cuda()
    driver.call("cuInit", 0)
    driver.expect_one("cuDeviceGetCount", "CUDA_VISIBLE_DEVICES")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    # Nothing of this is given back: the process ends, and a device in trouble would fail at that, too.
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(_MEMORY_BYTES))
    for pattern in _PATTERNS:
        driver.fill(memory, pattern, _MEMORY_BYTES // 4)
        _compare(driver.fetch(memory, _MEMORY_BYTES), struct.pack("<I", pattern))
    return _launch(driver, memory, count, [ctypes.c_uint32(value) for value in (start, count, steps, target)])


def check_rocm() -> None:
    """Write to the memory of the one ROCm device in sight and read it back. Raises DriverError."""
    driver = _Hip()
    driver.call("hipInit", 0)
    driver.expect_one("hipGetDeviceCount", "HIP_VISIBLE_DEVICES")
    driver.call("hipSetDevice", 0)
    memory = ctypes.c_void_p()
    driver.call("hipMalloc", ctypes.byref(memory), ctypes.c_size_t(_MEMORY_BYTES))
    for pattern in _PATTERNS:
        byte = pattern & 0xFF
        driver.call("hipMemset", memory, byte, ctypes.c_size_t(_MEMORY_BYTES))
        back = ctypes.create_string_buffer(_MEMORY_BYTES)
        driver.call("hipMemcpy", back, memory, ctypes.c_size_t(_MEMORY_BYTES), _DEVICE_TO_HOST)
        _compare(back.raw, bytes([byte]))


class _Driver:
    """A library whose functions return 0, or the number of an error."""

    def __init__(self, names: List[str], advice: str) -> None:
        self._library = _load(names, advice)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise DriverError("the driver has no %s: it is too old" % name) from None
        status = function(*arguments)
        if status != 0:
            raise DriverError(
                "%s failed with %d%s; look at the driver's own tool and at dmesg there"
                % (name, status, self._meaning(status))
            )

    def expect_one(self, name: str, variable: str) -> None:
        """One device is in sight, or, where nothing says which, at least one."""
        count = ctypes.c_int()
        self.call(name, ctypes.byref(count))
        wanted = os.environ.get(variable)
        if count.value < 1 or (wanted is not None and count.value != 1):
            raise DriverError("the driver shows %d devices for %s=%s, not one" % (count.value, variable, wanted))

    def _meaning(self, status: int) -> str:
        raise NotImplementedError


class _Cuda(_Driver):
    def __init__(self) -> None:
        super().__init__(["libcuda.so.1"], "install the NVIDIA driver, or name the folder in LD_LIBRARY_PATH")

    def fill(self, memory: ctypes.c_uint64, word: int, count: int) -> None:
        """Write a word so many times."""
        self.call("cuMemsetD32_v2", memory, ctypes.c_uint(word), ctypes.c_size_t(count))

    def fetch(self, memory: ctypes.c_uint64, size: int) -> bytes:
        """Read bytes back."""
        back = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(size))
        return back.raw

    def _meaning(self, status: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorString(status, ctypes.byref(text)) != 0 or not text.value:
            return ""
        return " (%s)" % text.value.decode("utf-8", "replace")


class _Hip(_Driver):
    def __init__(self) -> None:
        folders = [os.environ.get(name) for name in ("HIP_PATH", "ROCM_PATH")]
        places = ["%s/lib/libamdhip64.so" % folder for folder in [*folders, "/opt/rocm"] if folder]
        advice = "install the HIP runtime, name its folder in ROCM_PATH, or give the node a canary of your own"
        super().__init__(["libamdhip64.so", *places], advice)
        self._library.hipGetErrorString.restype = ctypes.c_char_p

    def _meaning(self, status: int) -> str:
        return " (%s)" % (self._library.hipGetErrorString(status) or b"").decode("utf-8", "replace")


def _launch(driver: _Cuda, memory: ctypes.c_uint64, count: int, values: List[ctypes.c_uint32]) -> Optional[int]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"canary"))
    driver.fill(memory, _NOTHING, 1)
    given = [memory, *values]
    parameters = (ctypes.c_void_p * len(given))(*[ctypes.addressof(each) for each in given])
    blocks = (count + _THREADS - 1) // _THREADS
    driver.call("cuLaunchKernel", function, blocks, 1, 1, _THREADS, 1, 1, 0, None, parameters, None)
    driver.call("cuCtxSynchronize")
    (found,) = struct.unpack("<I", driver.fetch(memory, 4))
    return None if found == _NOTHING else int(found)


def _load(names: List[str], advice: str) -> ctypes.CDLL:
    problem = ""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            problem = problem or str(error)
    raise DriverError("cannot load %s: %s; %s" % (names[0], problem, advice))


def _compare(found: bytes, pattern: bytes) -> None:
    if found != pattern * (len(found) // len(pattern)):
        raise DriverError("its memory does not give back what was written to it: the device is broken")
