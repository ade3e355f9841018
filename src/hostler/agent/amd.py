"""AMD's devices, numbered as HIP numbers them: as the driver's files, amd-smi and rocm-smi tell of them.

Formats: the amdgpu driver's files under /sys/class/drm, and the topology of its compute part under /sys/class/kfd.
What is read again and again is read by another program, because a driver that is in trouble lets a reader hang.
"""

from __future__ import annotations

import glob
import os
import re
from functools import partial
from typing import Any, Callable, Dict, Generator, Iterator, List, NamedTuple, Optional, Tuple

from .protocol import Json
from .readings import MIB, MOST_PROCESSES, amount, json_in, member, number, sample, share, whole
from .tools import Question, Talk, Tools
from .users import process_of

DRM = "/sys/class/drm"
KFD = "/sys/class/kfd/kfd/topology/nodes"
_VENDOR = "0x1002"
_AVOIDED_S = 300.0
_AMD_SMI, _ROCM_SMI = "amd-smi", "rocm-smi"
_INSTEAD = "other sources are asked instead, and it again after 5 min"
_STATIC = [_AMD_SMI, "static", "--json"]
_METRIC = [_AMD_SMI, "metric", "--usage", "--mem-usage", "--temperature", "--json"]
_PROCESS = [_AMD_SMI, "process", "--json"]
_PRODUCT = [_ROCM_SMI, "--showproductname", "--showbus", "--showuniqueid", "--showmeminfo", "vram", "--json"]
_USE = [_ROCM_SMI, "--showuse", "--showbus", "--showtemp", "--showmeminfo", "vram", "--json"]
_FILES = {
    "gpu_busy_percent": "utilization",
    "mem_info_vram_used": "vram_used_bytes",
    "temp1_input": "temperature_c",
}
_HEADER = re.compile(r"==> (.*) <==\Z")
_CARD = re.compile(r"card([0-9]{1,4})\Z")
_BUS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z")
_NOTHING = re.compile(r"(?:n/?a|unknown|none)?\Z", re.IGNORECASE)
_HEX = re.compile(r"0x[0-9a-f]+\Z", re.IGNORECASE)
_LONGEST_NAME = 200


class Row(NamedTuple):
    """What a tool says of one device. ``number`` is its own, which need not be HIP's."""

    number: int
    bus: Optional[str] = None
    model: Optional[str] = None
    vram_bytes: Optional[int] = None
    uuid: Optional[str] = None
    utilization: Optional[float] = None
    vram_used_bytes: Optional[int] = None
    temperature_c: Optional[float] = None


Rows = Optional[List[Row]]
Asking = Generator[Question, Any, Rows]


class Amd:
    """AMD's devices on this node."""

    def __init__(self, tools: Tools, drm: str = DRM, kfd: str = KFD) -> None:
        self._tools = tools
        self._drm = drm
        self._kfd = kfd
        self._avoided_until: Dict[str, float] = {}
        self._buses: Dict[int, Optional[str]] = {}
        self._known: Dict[Optional[str], Row] = {}

    def is_there(self) -> bool:
        """Whether there is a device, or somebody to ask for one."""
        return bool(self._folders()) or any(self._program(name) for name in (_AMD_SMI, _ROCM_SMI))

    def facts(self) -> Talk:
        """What they are: the driver's files count, and a tool fills in what they leave open, as the model."""
        rows = yield from self._first(self._static, self._product)
        folders = self._folders()
        if not folders:
            return [_fact(index, row) for index, row in enumerate(in_order_of_bus(rows or []))]
        told = self._placed(rows, folders)
        self._known.update((row.bus, row) for row in told.values() if row.bus is not None)
        return [
            _completed(_of_files(index, folder), told.get(index) or self._known.get(_bus_of(folder)))
            for index, folder in enumerate(folders)
        ]

    def samples(self) -> Talk:
        """How busy they are."""
        rows = yield from self._first(self._metric, self._use)
        folders = self._folders()
        if rows is None:
            return (yield from _read_files(folders))
        placed = self._placed(rows, folders) if folders else dict(enumerate(in_order_of_bus(rows)))
        devices = [_sample(index, row) for index, row in sorted(placed.items())]
        yield from self._add_processes(devices, {row.number: index for index, row in placed.items()})
        return devices

    def _first(self, *ways: Callable[[], Asking]) -> Asking:
        """What the first of these says that can say anything."""
        for way in ways:
            rows = yield from way()
            if rows is not None:
                return rows
        return None

    def _static(self) -> Asking:
        rows = yield from self._asked(_STATIC, amd_smi_rows)
        if rows is not None:
            self._buses = {row.number: row.bus for row in rows}
        return rows

    def _metric(self) -> Asking:
        if not self._buses and (yield from self._static()) is None:
            return None
        rows = yield from self._asked(_METRIC, amd_smi_rows)
        return None if rows is None else [row._replace(bus=self._buses.get(row.number)) for row in rows]

    def _product(self) -> Asking:
        return self._asked(_PRODUCT, rocm_smi_rows)

    def _use(self) -> Asking:
        return self._asked(_USE, rocm_smi_rows)

    def _asked(self, argv: List[str], read: Callable[[str], Rows]) -> Asking:
        program = self._usable(argv[0])
        if program is None:
            return None
        rows: Rows = yield Question([program, *argv[1:]], partial(self._read, read), argv[0], _INSTEAD)
        if rows is None:
            self._avoided_until[argv[0]] = self._tools.node.loop.monotonic() + _AVOIDED_S
        return rows

    def _read(self, read: Callable[[str], Rows], text: str) -> Rows:
        """Where there is no device, a tool that only says so in its own words has not failed."""
        rows = read(text)
        return [] if rows is None and not self._folders() else rows

    def _usable(self, name: str) -> Optional[str]:
        """The program of that name, unless it has failed of late."""
        has_rested = self._tools.node.loop.monotonic() >= self._avoided_until.get(name, 0.0)
        return self._program(name) if has_rested else None

    def _program(self, name: str) -> Optional[str]:
        """ROCm's tools are where it is, which only a login shell has in its PATH."""
        home = self._tools.node.environ.get("ROCM_PATH") or "/opt/rocm"
        return next((path for path in (name, "%s/bin/%s" % (home, name)) if self._tools.has(path)), None)

    def _add_processes(self, devices: List[Json], places: Dict[int, int]) -> Generator[Question, Any, None]:
        program = self._usable(_AMD_SMI)
        if program is None:
            return
        argv, instead = [program, *_PROCESS[1:]], "who uses its devices is unknown until it answers"
        users = yield Question(argv, amd_smi_users, "amd-smi process", instead)
        by_index = {device["index"]: device for device in devices}
        for place, listed in (users or {}).items():
            device = by_index.get(places.get(place, -1))
            if device is not None:
                device["processes"] = [self._process(pid, used) for pid, used in listed[:MOST_PROCESSES]]

    def _process(self, pid: int, used: Optional[int]) -> Json:
        return process_of(pid, used, self._tools.node.directory)

    def _placed(self, rows: Rows, folders: List[str]) -> Dict[int, Row]:
        """Rows by HIP's numbers. One whose device HIP does not count, or whose bus nobody knows, is left out."""
        if rows is None:
            return {}
        index_of = {_bus_of(folder): index for index, folder in enumerate(folders)}
        placed = {index_of[row.bus]: row for row in rows if row.bus in index_of}
        if len(rows) == len(folders) and all(row.bus is None for row in rows):
            placed = dict(enumerate(in_order_of_bus(rows)))
        self._tell_of_difference(len(rows), len(placed), len(folders))
        return placed

    def _tell_of_difference(self, told: int, placed: int, counted: int) -> None:
        if told == placed == counted:
            self._tools.troubles.over("rocm number", "the driver and its tool agree on the number of AMD devices again")
            return
        words = (
            "the tool of the AMD driver tells of %d devices, %d of them among the %d that HIP counts by /sys; "
            "they are numbered as HIP does"
        )
        self._tools.troubles.lasts("rocm number", words % (told, placed, counted))

    def _folders(self) -> List[str]:
        return amd_folders(self._drm, self._kfd)


def amd_folders(drm: str = DRM, kfd: str = KFD) -> List[str]:
    """The folders of the AMD devices as HIP counts them: by the nodes of the compute driver, else by bus address."""
    found = {os.path.realpath(path) for path in glob.glob(drm + "/card*/device") if _is_amd(path)}
    by_bus = {os.path.basename(path): path for path in sorted(found)}
    counted = [by_bus[bus] for bus in dict.fromkeys(_compute_nodes(kfd)) if bus in by_bus]
    return counted or [by_bus[bus] for bus in sorted(by_bus)]


def amd_smi_rows(text: str) -> Rows:
    """The devices of ``amd-smi static --json`` or ``metric --json``; None if it is no such answer."""
    return _rows_of((_whole_number(each.get("gpu")), each) for each in _gpu_list(json_in(text)))


def amd_smi_users(text: str) -> Optional[Dict[int, List[Tuple[int, Optional[int]]]]]:
    """Pids and bytes by amd-smi's numbers of devices, of ``amd-smi process --json``; None if it is no such answer."""
    found: Dict[int, List[Tuple[int, Optional[int]]]] = {}
    for each in _gpu_list(json_in(text)):
        place, listed = _whole_number(each.get("gpu")), each.get("process_list")
        if place is not None:
            found[place] = list(_users(listed if isinstance(listed, list) else []))
    return found or None


def rocm_smi_rows(text: str) -> Rows:
    """The devices of a ``rocm-smi --json`` answer; None if it is no such answer."""
    told = json_in(text)
    if not isinstance(told, dict):
        return None
    cards = [(_CARD.match(key), value) for key, value in told.items() if isinstance(value, dict)]
    found = [_rocm_smi_row(int(card.group(1)), value) for card, value in cards if card is not None]
    return found or None


def in_order_of_bus(rows: List[Row]) -> List[Row]:
    """In the order that HIP counts in, as far as anybody told."""
    return sorted(rows, key=lambda row: (row.bus or "", row.number))


def file_samples(folders: List[str], text: str) -> List[Json]:
    """The devices of what ``head -v`` says of their files."""
    values: Dict[str, str] = {}
    path = None
    for row in text.splitlines():
        header = _HEADER.match(row)
        if header is not None:
            path = header.group(1)
        elif path is not None and row.strip():
            values[path] = row.strip()
    return [_file_sample(index, folder, values) for index, folder in enumerate(folders)]


def _read_files(folders: List[str]) -> Talk:
    files = [path for folder in folders for path in _files(folder)]
    if not files:
        return []
    answer: Optional[List[Json]] = yield Question(
        ["head", "-v", "-n", "1", *files], partial(file_samples, folders), "the amdgpu driver"
    )
    return answer


def _compute_nodes(kfd: str) -> Iterator[str]:
    """Bus addresses of the devices that the compute driver has, in its order."""
    for node in sorted((name for name in _listed(kfd) if name.isdigit()), key=int):
        if (_text("%s/%s/gpu_id" % (kfd, node)) or "0") == "0":
            continue
        place, domain = (_property(kfd, node, name) for name in ("location_id", "domain"))
        if place is not None:
            yield "%04x:%02x:%02x.%x" % (domain or 0, place >> 8 & 0xFF, place >> 3 & 0x1F, place & 7)


def _property(kfd: str, node: str, name: str) -> Optional[int]:
    for row in (_text("%s/%s/properties" % (kfd, node)) or "").splitlines():
        key, _, value = row.partition(" ")
        if key == name:
            return _whole_number(value)
    return None


def _is_amd(path: str) -> bool:
    return _text(path + "/vendor") == _VENDOR and os.path.exists(path + "/mem_info_vram_total")


def _of_files(index: int, folder: str) -> Row:
    return Row(
        number=index,
        bus=_bus_of(folder),
        model=_name(_text(folder + "/product_name")),
        vram_bytes=whole(number(_text(folder + "/mem_info_vram_total") or "")),
        uuid=_text(folder + "/unique_id") or None,
    )


def _bus_of(folder: str) -> str:
    return os.path.basename(folder)


def _completed(known: Row, told: Optional[Row]) -> Json:
    """What the driver's files leave open, a tool may tell."""
    values: Dict[str, Any] = {} if told is None else told._asdict()
    missing: Dict[str, Any] = {key: values.get(key) for key, value in known._asdict().items() if value is None}
    return _fact(known.number, known._replace(**missing))


def _fact(index: int, row: Row) -> Json:
    return {"index": index, "kind": "rocm", "model": row.model, "vram_bytes": row.vram_bytes, "uuid": row.uuid}


def _sample(index: int, row: Row) -> Json:
    return sample("rocm", index, row.utilization, row.vram_used_bytes, row.temperature_c)


def _gpu_list(told: Any) -> List[Dict[str, Any]]:
    """Newer versions of amd-smi put the list of devices into an object."""
    listed = told.get("gpu_data", told.get("process_data")) if isinstance(told, dict) else told
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _rows_of(numbered: Iterator[Tuple[Optional[int], Dict[str, Any]]]) -> Rows:
    found = [_amd_smi_row(place, each) for place, each in numbered if place is not None]
    return found or None


def _amd_smi_row(place: int, told: Dict[str, Any]) -> Row:
    heat = (amount(member(told, "temperature", sensor)) for sensor in ("edge", "hotspot"))
    total = amount(member(told, "vram", "size")) or amount(member(told, "mem_usage", "total_vram"))
    return Row(
        number=place,
        bus=_bus(member(told, "bus", "bdf")),
        model=_name(member(told, "asic", "market_name")),
        vram_bytes=whole(total, MIB),
        uuid=_id(member(told, "asic", "asic_serial")),
        utilization=share(amount(member(told, "usage", "gfx_activity"))),
        vram_used_bytes=whole(amount(member(told, "mem_usage", "used_vram")), MIB),
        temperature_c=next((each for each in heat if each is not None), None),
    )


def _users(listed: List[Any]) -> Iterator[Tuple[int, Optional[int]]]:
    for each in listed:
        pid = _whole_number(member(each, "process_info", "pid"))
        if pid is not None:
            used = member(each, "process_info", "memory_usage", "vram_mem")
            yield pid, whole(amount(used)) if member(used, "unit") == "B" else None


def _rocm_smi_row(place: int, told: Dict[str, Any]) -> Row:
    values = {key.lower(): value for key, value in told.items()}
    names = (_name(values.get(key)) for key in ("device name", "card series", "card model"))
    heat = (amount(values.get("temperature (sensor %s) (c)" % sensor)) for sensor in ("edge", "junction"))
    return Row(
        number=place,
        bus=_bus(values.get("pci bus")),
        model=next((name for name in names if name is not None), None),
        vram_bytes=whole(amount(values.get("vram total memory (b)"))),
        uuid=_id(values.get("unique id")),
        utilization=share(amount(values.get("gpu use (%)"))),
        vram_used_bytes=whole(amount(values.get("vram total used memory (b)"))),
        temperature_c=next((each for each in heat if each is not None), None),
    )


def _name(told: Any) -> Optional[str]:
    """A text that names something for people: tools print numbers for what they do not know."""
    name = _id(told)
    return None if name is None or _HEX.match(name) else name


def _id(told: Any) -> Optional[str]:
    text = told.strip()[:_LONGEST_NAME] if isinstance(told, str) else ""
    return None if _NOTHING.match(text) else text


def _bus(told: Any) -> Optional[str]:
    """A bus address as /sys writes it."""
    found = _BUS.match(told.strip().lower()) if isinstance(told, str) else None
    if found is None:
        return None
    domain, bus, device, function = found.groups()
    return "%04x:%s:%s.%s" % (int(domain or "0", 16), bus, device, function)


def _file_sample(index: int, folder: str, values: Dict[str, str]) -> Json:
    found = {_FILES[os.path.basename(path)]: values.get(path, "") for path in _files(folder)}
    heat = number(found.get("temperature_c", ""))
    return sample(
        "rocm",
        index,
        share(number(found.get("utilization", ""))),
        whole(number(found.get("vram_used_bytes", ""))),
        None if heat is None else heat / 1000,  # hwmon counts thousandths
    )


def _files(folder: str) -> Iterator[str]:
    yield folder + "/gpu_busy_percent"
    yield folder + "/mem_info_vram_used"
    yield from sorted(glob.glob(folder + "/hwmon/hwmon*/temp1_input"))[:1]


def _whole_number(told: Any) -> Optional[int]:
    if isinstance(told, str):
        return int(told) if told.isascii() and told.isdigit() and len(told) < 20 else None
    return told if type(told) is int and 0 <= told < 1 << 63 else None


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return None
