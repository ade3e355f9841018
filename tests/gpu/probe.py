"""Runs in jobs of `make gpu`: asks the CUDA driver library, without PyTorch, which cards this process sees.

`probe.py show` prints them as JSON, `show-and-wait GATE` then waits until a file appears; `hold BYTES GATE` takes
memory of the first one until a file appears; `eat BYTES` takes memory of the host; `torch BYTES` computes on the first
card with PyTorch, then takes memory of the host.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import uuid

NO_DEVICE = 100
HOLD_S = 1800.0


class DriverFailed(Exception):
    """A function of the driver library has failed."""


def call(driver: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(driver, name)(*arguments)
    if status != 0:
        raise DriverFailed(f"{name} failed with {status}")


def seen() -> list[dict[str, str]]:
    """The cards that this process sees, in the order of the runtime."""
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuInit(0)
    if status == NO_DEVICE:
        return []
    if status != 0:
        raise DriverFailed(f"cuInit failed with {status}")
    count = ctypes.c_int()
    call(driver, "cuDeviceGetCount", ctypes.byref(count))
    return [card(driver, at) for at in range(count.value)]


def card(driver: ctypes.CDLL, ordinal: int) -> dict[str, str]:
    device, name, number = ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.create_string_buffer(16)
    call(driver, "cuDeviceGet", ctypes.byref(device), ordinal)
    call(driver, "cuDeviceGetName", name, len(name), device)
    # The second version names the slice where a card is in slices.
    call(driver, "cuDeviceGetUuid_v2" if hasattr(driver, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", number, device)
    return {"name": name.value.decode(), "uuid": str(uuid.UUID(bytes=number.raw))}


def hold(size: int, gate: str) -> None:
    """Take memory of the first card, and keep it until the gate opens."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call(driver, "cuInit", 0)
    call(driver, "cuDeviceGet", ctypes.byref(device), 0)
    call(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call(driver, "cuCtxSetCurrent", context)
    call(driver, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    print("held", flush=True)
    wait(gate)


def wait(gate: str) -> None:
    """Until a file appears; the bound ends a job whose checks were killed."""
    end = time.monotonic() + HOLD_S
    while not os.path.exists(gate) and time.monotonic() < end:
        time.sleep(0.05)


def eat(size: int) -> None:
    """Take memory of the host, page by page, so that it is resident."""
    pages = bytearray()
    for _ in range(size >> 24):
        pages += b"x" * (1 << 24)
    print("eaten", len(pages), flush=True)


def compute() -> None:
    import torch

    total = torch.ones(1 << 20, device="cuda").sum().item()
    print("computed", int(total), torch.cuda.device_count(), flush=True)


def main() -> None:
    what, *arguments = sys.argv[1:]
    if what == "show":
        print(json.dumps(seen()), flush=True)
    elif what == "show-and-wait":
        print(json.dumps(seen()), flush=True)
        wait(arguments[0])
    elif what == "hold":
        hold(int(arguments[0]), arguments[1])
    elif what == "eat":
        eat(int(arguments[0]))
    elif what == "torch":
        compute()
        eat(int(arguments[0]))
    else:
        sys.exit(f"probe.py: {what!r} is none of show, show-and-wait, hold, eat, torch")


if __name__ == "__main__":
    main()
