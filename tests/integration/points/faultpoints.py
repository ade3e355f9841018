"""Points of a controller's work at which a test may have it die: `$FAULT_POINT` names one.

The process kills itself there by SIGKILL, in the thread and at the step that the point is: nothing it does besides goes
on meanwhile. Just before, it leaves the name of the point in the file `$FAULT_STRUCK`.

A pull is what `backends/courier.py` fetches from a node, at the `end` of an attempt or `early`, while it runs; `many`
small files of it are written through together. A put and a get are what the Replicator has a store of that kind do,
and to gather is to get what work needs. Sends go to a node. What is spare is deleted in the controller's own store.
"""

import fnmatch
import functools
import importlib.abc
import importlib.util
import inspect
import os
import signal
import sys
import threading

END, EARLY = "*/incoming/j*.[0-9]/[0-9a-f][0-9a-f][0-9a-f]*", "*/incoming/j*.[0-9]?early/*"
SHELF, OWN = "*/shelf/objects/*", "*/artifacts/objects/*"


def strike():
    """The end of this process. Two threads may come to a point at the same time."""
    told = os.environ["FAULT_STRUCK"]
    draft = f"{told}.{threading.get_ident()}"
    with open(draft, "w") as file:
        file.write(os.environ["FAULT_POINT"])
    os.replace(draft, told)
    os.kill(os.getpid(), signal.SIGKILL)


class Point:
    """Something that is watched for; `thread` is how threads are called in which it counts."""

    thread = ""

    def within(self, thread):
        """The same, in such threads only."""
        self.thread = thread
        return self

    def is_near(self):
        """Whether what happens now counts."""
        return threading.current_thread().name.startswith(self.thread)


class Opened(Point):
    """A file of that kind is opened, to be written."""

    def __init__(self, pattern):
        self.pattern = pattern

    def set_up(self):
        def watch(event, arguments):
            is_written = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if is_written and fits(arguments[0], self.pattern) and self.is_near():
                strike()

        sys.addaudithook(watch)


class Named(Point):
    """A file of that kind is about to get its name, for the `time`-th time (from 0)."""

    def __init__(self, source, target, time=0):
        self.source, self.target, self.left = source, target, time

    def set_up(self):
        def watch(event, arguments):
            if event == "os.rename" and fits(arguments[0], self.source) and fits(arguments[1], self.target):
                if not self.is_near():
                    return
                if not self.left:
                    strike()
                self.left -= 1

        sys.addaudithook(watch)


class Synced(Point):
    """A file of that kind, or a folder, is about to be written through, or has just been."""

    def __init__(self, pattern, after=False):
        self.pattern, self.after = pattern, after

    def set_up(self):
        real = os.fsync

        def fsync(file):
            number = file if isinstance(file, int) else file.fileno()
            ours = self.is_near() and fits(os.readlink(f"/proc/self/fd/{number}"), self.pattern)
            if ours and not self.after:
                strike()
            real(file)
            if ours:
                strike()

        os.fsync = fsync


class Called(Point):
    """A function is called with such arguments for the `time`-th time (from 0), or has just returned."""

    def __init__(self, where, suits=lambda *_: True, after=False, time=0):
        self.module, _, self.name = where.partition(":")
        self.suits, self.after, self.left = suits, after, time

    def set_up(self):
        sys.meta_path.insert(0, Finder(self.module, self.patch))

    def patch(self, module):
        *path, name = self.name.split(".")
        holder = functools.reduce(getattr, path, module)
        setattr(holder, name, self.wrapped(getattr(holder, name)))

    def wrapped(self, real):
        def come(arguments):
            if not self.is_near() or not self.suits(*arguments):
                return
            if not self.left:
                strike()
            self.left -= 1

        def begin(arguments):
            if not self.after:
                come(arguments)

        def end(arguments):
            if self.after:
                come(arguments)

        async def waiting(*arguments, **more):
            begin(arguments)
            result = await real(*arguments, **more)
            end(arguments)
            return result

        def at_once(*arguments, **more):
            begin(arguments)
            result = real(*arguments, **more)
            end(arguments)
            return result

        return functools.wraps(real)(waiting if inspect.iscoroutinefunction(real) else at_once)


class Halved(Called):
    """Half of the first piece of what a function gives was taken."""

    def wrapped(self, real):
        async def later(*arguments):
            async for piece in real(*arguments):
                if self.is_near() and self.suits(*arguments):
                    yield piece[: len(piece) // 2]
                    strike()
                yield piece

        def now(*arguments):
            for piece in real(*arguments):
                if self.is_near() and self.suits(*arguments):
                    yield piece[: len(piece) // 2]
                    strike()
                yield piece

        return later if inspect.isasyncgenfunction(real) else now


class AtOnce(Called):
    """As `Called`, where many files are written through by one call, whatever file system this is."""

    def patch(self, module):
        module.FOREIGN_BYTES, module.TELLS, module.JOURNALLED = 1 << 60, (0, 0), Everything()
        super().patch(module)


class Everything:
    """Has everything in it."""

    def __contains__(self, _):
        return True


class Cut(Called):
    """Half of the first piece that came is in the file."""

    def wrapped(self, real):
        def write(sink, piece):
            if fits(sink._output.name, self.suits):
                real(sink, piece[: len(piece) // 2])
                sink._output.flush()
                strike()
            real(sink, piece)

        return write


class Finder(importlib.abc.MetaPathFinder):
    """Has a module changed as soon as it was imported."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.change(module)

        spec.loader.exec_module = exec_module
        return spec


def fits(path, pattern):
    """Whether a path, if it is one, is of that kind."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    return fnmatch.fnmatch(os.fsdecode(path), pattern)


def tells(kind, place=None):
    """Whether batches for the journal have a fact of that kind, of that place."""

    def told(journal, batches):
        events = [entry.event for batch in batches for entry in batch.entries]
        return any(type(each).__name__ == kind and place in (None, getattr(each, "place", None)) for each in events)

    return told


def written(kind, place=None):
    """The steps of the journal with such a fact."""
    append = "hostler.store.journal:Journal.append"
    return {
        "told": Called(append, tells(kind, place)),
        "durable": Called(append, tells(kind, place), after=True),
    }


def of_attempt(early):
    return lambda carrier, attempt, what: bool(what.artifacts) and attempt.endswith("early") == early


def pulled(where, early):
    """The steps of fetching from a node."""
    objects = "hostler.backends.arriving:"
    folder = OWN.removesuffix("/*") + "/[0-9a-f][0-9a-f]"
    return {
        "asked": Opened(where),
        "partial": Cut(f"{objects}Sink.write", where),
        "whole": Called(f"{objects}Disk.sync", lambda disk, path: fits(path, where)),
        "synced": Named(where, OWN),
        **({} if early else {"half of them named": Named(where, OWN, 1)}),
        "named": Synced(folder),
        "folder synced": Synced(folder, after=True),
        "here": Called("hostler.backends.carrier:Carrier.fetch", of_attempt(early), after=True),
        **written("SegmentsMade"),
    }


def pulled_at_once(where):
    """The steps of fetching many small files that are written through by one call for all, then their folders."""
    sync = "hostler.backends.volumes:Volume.sync"
    return {
        "whole": AtOnce(sync),
        "synced": AtOnce(sync, after=True),
        "half of them named": Named(where, OWN, 20),
        "named": AtOnce(sync, time=1),
        "folders synced": AtOnce(sync, after=True, time=1),
        "durable": written("SegmentsMade")["durable"],
    }


def stored(where, call):
    """The steps of writing an object into a directory."""
    temporary, folder = where.removesuffix("*") + "??/.*.tmp", where.removesuffix("*") + "[0-9a-f][0-9a-f]"
    return {
        "begun": Opened(temporary),
        "written": Synced(temporary),
        "synced": Synced(temporary, after=True),
        "read back": Named(temporary, where),
        "named": Synced(folder),
        "folder synced": Synced(folder, after=True),
        "there": Called(f"hostler.stores.directory:DirectoryStore.{call}", lambda *_: True, after=True),
    }


def gathered():
    """The steps of fetching what work needs into the controller's own store, from a directory."""
    return {
        "asked": Called("hostler.runtime.gathering:Gatherer._fetch"),
        **{step: point.within("gathers from") for step, point in stored(OWN, "get").items()},
        "partial": Halved("hostler.stores.hashing:checked", lambda *told: "shelf" in told[3]).within("gathers from"),
        **written("CopiesVerified", "controller"),
        "fetched": Called("hostler.runtime.gathering:Gatherer._fetch", after=True),
    }


def deleted():
    """The steps of deleting what is spare: listed, moved to a tombstone, told, and gone when its grace is over."""
    tombs = "hostler.runtime.disks.tombs:Tombs."
    retired, gone = written("FilesRetired"), written("FilesDeleted")
    return {
        "begun": Called(f"{tombs}open"),
        "listed": Named("list.json.new", "list.json"),
        "opened": Called(f"{tombs}open", after=True),
        "retirement told": retired["told"],
        "retirement durable": retired["durable"],
        "half of them moved": Named("*.npz", "[0-9]*", 1),
        "moved": Called(f"{tombs}bury", after=True),
        "due": Called(f"{tombs}delete"),
        "deleted": Called(f"{tombs}delete", after=True),
        "end told": gone["told"],
        "end durable": gone["durable"],
        "closed": Called(f"{tombs}shorten", after=True),
    }


def dropped():
    """The steps of removing what has its copies from a node: told, asked for, gone there, told again."""
    dropping, gone = written("FilesDropping"), written("FilesDropped")
    return {
        "removal told": dropping["told"],
        "removal durable": dropping["durable"],
        "asked": Called("hostler.backends.carrier:Carrier.drop"),
        "gone": Called("hostler.backends.carrier:Carrier.drop", after=True),
        "end told": gone["told"],
        "end durable": gone["durable"],
    }


REMOTE = "hostler.stores.remote:RemoteStore."
BUCKET = "hostler.stores.bucket:BucketStore."
POINTS = {
    "send": {
        "asked": Called("hostler.backends.courier:Courier.missing", lambda _, parcels: are_artifacts(parcels), True),
        "partial": Halved("hostler.backends.courier:_pieces", lambda path, *_: fits(path, OWN)),
        "sent": Called("hostler.backends.carrier:Carrier._send_artifacts", lambda _, inputs: names_any(inputs), True),
    },
    "pull at the end": pulled(END, early=False),
    "pull many": pulled_at_once(END),
    "pull early": pulled(EARLY, early=True),
    "put": {
        **stored(SHELF, "put"),
        "partial": Halved("hostler.stores.hashing:own"),
        **written("CopiesVerified", "shelf"),
    },
    "get": {
        **stored(OWN, "get"),
        "partial": Halved("hostler.stores.hashing:checked", lambda *told: "shelf" in told[3]),
        **written("CopiesVerified", "controller"),
    },
    "gather": gathered(),
    "delete": deleted(),
    "drop": dropped(),
    "read back": {
        "new": Called("hostler.runtime.copying:Copier.read_new"),
        "read": Called("hostler.runtime.copying:Copier._right_ones", after=True),
        **written("CopiesVerified", "controller"),
    },
    "put into a bucket": {
        "begun": Called(f"{BUCKET}put"),
        "partial": Called("hostler.runtime.pacing:Bandwidth.pace"),
        "named": Called("hostler.stores.hashing:verified", lambda *told: "s3://" in told[3]),
        "read back": Called(f"{BUCKET}put", after=True),
        **written("CopiesVerified", "bucket"),
    },
    "put with rclone": {
        "begun": Called(f"{REMOTE}_begin", lambda _, words, *rest: words[0] == "rcat", after=True),
        "partial": Halved("hostler.stores.hashing:own"),
        "written": Called(f"{REMOTE}_content", lambda _, path: path.startswith("incoming/")),
        "read back": Called(f"{REMOTE}_run", lambda _, *words: words[0] == "moveto"),
        "named": Called(f"{REMOTE}put", after=True),
        **written("CopiesVerified", "far"),
    },
}


def are_artifacts(parcels):
    return any(each.path.startswith("artifacts/") for each in parcels)


def names_any(inputs):
    return "segments" in (inputs or {})


def install(name):
    """Have this process die at the point `WAY: STEP`."""
    way, _, step = name.partition(": ")
    POINTS[way][step].set_up()
