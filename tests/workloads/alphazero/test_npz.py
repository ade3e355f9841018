import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from hostler.workloads.alphazero import npz

LAYOUT: npz.Layout = {"action": ("int32", 1)}
GOOD = npz.pack({"schema": 1}, {"action": np.arange(10, dtype=np.int32)})


def bomb(promised: int, megabytes: int) -> bytes:
    """A file that holds zeros; its array's header promises so many."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(GOOD)) as good, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", good.read("header.npy"))
        with archive.open("action.npy", "w") as member:
            described = {"descr": "<i4", "fortran_order": False, "shape": (promised,)}
            np.lib.format.write_array_header_1_0(member, described)
            for _ in range(megabytes):
                member.write(bytes(1 << 20))
    return file.getvalue()


def peak(content: bytes, most: int, told: str) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(npz.NpzError, match=told):
            npz.unpack(content, LAYOUT, most)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_is_packed_comes_back() -> None:
    header, arrays = npz.unpack(GOOD, LAYOUT)
    assert header == {"schema": 1}
    assert arrays["action"].tolist() == list(range(10))
    assert npz.pack(header, arrays) == GOOD


def test_more_than_the_limit_is_not_decompressed() -> None:
    assert peak(bomb(16 << 18, 16), 8 << 20, r"would take \d+ bytes, more than the 8388608") < 4 << 20


def test_an_array_of_another_size_than_its_header_promises_is_not_decompressed() -> None:
    assert peak(bomb(10, 16), 1 << 30, r"16777216 bytes of data, but \(10,\) of int32 are 40") < 4 << 20


def test_an_archive_that_tells_a_smaller_size_than_it_holds_is_damaged_and_not_decompressed() -> None:
    content = bomb(992, 16)  # and a header of 128 bytes: 4096
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        true = archive.getinfo("action.npy").file_size
    lying = content.replace(true.to_bytes(4, "little"), (4096).to_bytes(4, "little"))
    assert peak(lying, 1 << 30, "Bad CRC-32") < 4 << 20


def test_other_methods_of_compression_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(GOOD)) as good, zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        for name in good.namelist():
            archive.writestr(name, good.read(name))
    with pytest.raises(npz.NpzError, match="compressed by method 12"):
        npz.unpack(file.getvalue(), LAYOUT)
