"""NPZ files as the loop keeps them: a JSON header and plain arrays, the same bytes for the same content.

Reading is strict, because files come from other machines: no pickle, no object arrays, exactly the arrays that are due
with their dtypes and dimensions, every checksum compared.
"""

from __future__ import annotations

import io
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Layout: TypeAlias = Mapping[str, tuple[str, int]]
"""Name of each array beside `header`: its dtype and the number of its dimensions."""

# What zipfile and numpy raise, between them, on bytes that are not what they should be.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
_FAST = 1
_NPY_PRELUDE = 10  # bytes: magic, version and the length of an array's header
_NPY_HEADER = _NPY_PRELUDE + 2**16
MOST_BYTES = 1 << 33
"""All arrays of a file together; far more than any dataset has, and less than would bring a node down."""


class NpzError(Exception):
    """The file is damaged, or not laid out as it must be; the message names what is wrong."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The file. `header` goes in as JSON; an array must be of the dtype that the layout wants."""
    text = json.dumps(header, allow_nan=False).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for name, array in {"header": np.frombuffer(text, np.uint8), **arrays}.items():
            # A member opened by name is dated 1980: the bytes do not depend on the clock.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return file.getvalue()


def unpack(content: bytes, layout: Layout, most: int = MOST_BYTES) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays, which can be written to; no more than `most` bytes are decompressed. Raises `NpzError`."""
    due = {"header": ("uint8", 1), **layout}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = _members(archive, due, most)
            arrays = {name: _array(name, archive, members[name], *due[name]) for name in due}
    except _DAMAGE as error:
        raise NpzError(f"the archive of {len(content)} bytes is damaged: {type(error).__name__}: {error}") from error
    return _header(arrays.pop("header").tobytes()), arrays


def _members(archive: zipfile.ZipFile, due: Layout, most: int) -> dict[str, zipfile.ZipInfo]:
    """What is in the archive, by the names of its arrays: looked at before anything is decompressed."""
    members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise NpzError(f"an array is there twice: {sorted(archive.namelist())}")
    if members.keys() != due.keys():
        missing, unknown = sorted(due.keys() - members.keys()), sorted(members.keys() - due.keys())
        raise NpzError(f"the arrays are not those of the format: missing {missing}, unknown {unknown}")
    if (size := sum(each.file_size for each in members.values())) > most:
        raise NpzError(f"its arrays would take {size} bytes, more than the {most} that are read")
    for name, each in members.items():
        if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NpzError(f"{name}: compressed by method {each.compress_type}; store or deflate it")
    return members


def _array(name: str, archive: zipfile.ZipFile, told: zipfile.ZipInfo, dtype: str, dimensions: int) -> NDArray[Any]:
    with archive.open(told) as member:
        # Never without a length: then zipfile would decompress all there is, whatever size the archive tells.
        start = member.read(min(told.file_size, _NPY_HEADER))
        shape, fortran, found = _array_header(name, start)
        _check_array(name, shape, fortran, found, np.dtype(dtype), dimensions)
        (length,) = struct.unpack_from("<H", start, _NPY_PRELUDE - 2)
        size = int(np.prod(shape, dtype=object)) * found.itemsize
        if (data := told.file_size - _NPY_PRELUDE - length) != size:
            raise NpzError(f"{name}: {data} bytes of data, but {shape} of {found} are {size}")
        content = start[_NPY_PRELUDE + length :] + member.read(told.file_size - len(start))
    return np.frombuffer(content, found).reshape(shape).copy()


def _check_array(
    name: str, shape: tuple[int, ...], fortran: bool, found: np.dtype[Any], dtype: np.dtype[Any], dimensions: int
) -> None:
    if found != dtype or len(shape) != dimensions or fortran:
        order = " in Fortran order" if fortran else ""
        raise NpzError(f"{name}: {found} with {len(shape)} dimensions{order}, not {dtype} with {dimensions}")


def _array_header(name: str, member: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    stream = io.BytesIO(member)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise NpzError(f"{name}: version {version} of the NPY format; write version (1, 0)")
        return np.lib.format.read_array_header_1_0(stream)
    except _DAMAGE as error:
        raise NpzError(f"{name}: not an NPY array: {type(error).__name__}: {error}") from error


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NpzError(f"header: no JSON: {error}") from error
    if not isinstance(header, dict):
        raise NpzError(f"header: must be a JSON object, not {type(header).__name__}")
    return header
