"""Files to and from this node, over a connection of their own: a process beside the supervisor, which must not wait.

The supervisor starts it for a connection to its socket; or somebody else does, as a guest, whom it lets in. Where a
cluster's nodes share a folder there is no agent to ask: there it just serves.

Requests are JSON lines and are answered in order, so that many can be on their way. The bytes of ``put`` follow its
line, those of ``get`` its answer. Format: ``docs/reference/agent-protocol.md``.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import stat
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Set, Tuple, cast

from . import procs
from .compiled import leave, origin
from .connection import connect
from .contents import COPY_BYTES, PLAINLY, called, content, in_words, nothing_but_bytes, pieces, reading, regular_size
from .paths import inside, relative
from .patterns import changed, matcher, walk
from .protocol import PROTOCOL, Json, RequestError, decode, integer, is_id, line, seconds
from .removal import noted, raise_first, remove

BLOBS = "blobs"
TREES = "trees"
ARTIFACTS = "artifacts"
ENDINGS = (".segment.npz", ".dataset.npz", ".safetensors")
"""What artifacts are called behind their hashes: they are asked for by name, there may be millions of them."""
OUTPUTS_MAX = 20_000
"""Files of one attempt: the controller takes no more, and no line that is much longer."""
LAID_AT_NS = 946_684_800 * 10**9
"""Modification time of laid-out files, 2000-01-01: a file that has another one was written since."""
CHANGED_MAX = 1000
"""New and changed files that are fetched at most where no outputs were named."""
LEFT_SHOWN = 3
CODE = origin(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
"""Where ``hostler`` is imported from: the zipapp; asked for while the working directory is still the one it was."""
_LONGEST_LINE = 16 << 20
_LONGEST_ANSWER = 8 << 20  # what the controller takes for a line
_SMALL_BYTES = 1 << 18
_OUTPUT_BYTES = 1 << 18  # less than what is copied at a time: that goes past the buffer
_F_SETPIPE_SZ = 1031  # fcntl(2); Python names it from 3.10 on
_UNUSED_S = 14 * 86400.0
_SHARED_UNUSED_S = 60 * 86400.0  # longer than anybody runs in one without asking for it anew
_HEX = frozenset("0123456789abcdef")
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def command(root: str) -> List[str]:
    """What serves the connection that is its standard input, and dies with this process.

    `CODE` must be in its PYTHONPATH.
    """
    return [sys.executable, "-S", "-m", "hostler.agent.files", "of", str(os.getpid()), root]


class Damaged(Exception):
    """Bytes do not have the hash that they should have."""


class Files:
    """Answers the requests of one connection."""

    writable: Tuple[str, ...] = (BLOBS + "/", ARTIFACTS + "/objects/")

    def __init__(self, root: str, source: BinaryIO, output: BinaryIO) -> None:
        self._root = root
        self._input = source
        self._output = output
        self._answers: Dict[str, Callable[[Json], Optional[Json]]] = {
            "get": self._get,
            "put": self._put,
            "missing": self._missing,
            "lay": self._lay,
            "outputs": self._outputs,
            "find": self._find,
            "stock": self._stock,
            "drop": self._drop,
            "drop_environments": self._drop_environments,
            "clear": self._clear,
            "keep": self._keep,
            "at": self._at,
        }

    def serve(self) -> None:
        """Answer until the other side hangs up. Raises OSError where the connection breaks."""
        while True:
            data = self._input.readline(_LONGEST_LINE)
            if not data.endswith(b"\n"):
                return
            try:
                answer = self._answer(decode(data, len(data)))
            except (RequestError, KeyError, TypeError) as error:
                # What follows may be the bytes of a file: nothing of it can be understood any more.
                self._say({"error": "this request cannot be understood: %r" % error})
                return
            except Damaged as error:
                answer = {"error": str(error), "damaged": True}
            except OSError as error:
                if error.filename is None and error.errno in (errno.EPIPE, errno.ECONNRESET):
                    raise
                answer = {"error": in_words(error)}
            except (ValueError, RecursionError) as error:  # as of a name that this system's encoding does not have
                answer = {"error": str(error)}
            if answer is not None:
                self._say(answer)

    def _say(self, answer: Json) -> None:
        said = line(answer)
        if len(said) > _LONGEST_ANSWER:
            said = line({"error": "the answer would be a line of %d bytes; pack the files into one" % len(said)})
        self._output.write(said)
        self._output.flush()

    def _answer(self, request: Json) -> Optional[Json]:
        method = self._answers.get(str(request.get("op")))
        if method is None:
            raise RequestError("unknown op %.80r" % request.get("op"))
        return method(request)

    def _get(self, request: Json) -> None:
        """Files, each from an offset on, one after the other. None may change meanwhile: one too short ends all."""
        real = os.path.realpath(self._root)
        for path, offset in request["files"]:
            self._send_file(str(path), integer(offset, "offset"), real)
        self._output.flush()

    def _send_file(self, path: str, offset: int, real: str) -> None:
        """A file, or in its place a line that says why there is none."""
        try:
            descriptor = self._opened(path, real)
            try:
                size = regular_size(descriptor, path)
                if size > _SMALL_BYTES:
                    with reading(descriptor) as source:
                        self._send_large(source, size, min(offset, size))
                    return
                data = content(descriptor, size)
            finally:
                os.close(descriptor)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._output.write(line({"error": in_words(error)}))
        except UnicodeEncodeError as error:
            self._output.write(line({"error": str(error)}))
        else:
            self._send_small(data, min(offset, size))

    def _opened(self, path: str, real: str) -> int:
        """The descriptor of a file below the agent's folder, which is ``real`` without links, to be read.

        Where the system tells how an open file is called, that takes far less time than a look at each folder above.
        """
        full = os.path.join(self._root, relative(path))
        try:
            descriptor = os.open(full, PLAINLY)
        except OSError as error:
            if error.errno != errno.ELOOP:  # it is a link, which may lead to where it is allowed to
                raise
        else:
            if called(descriptor).startswith(real + "/"):
                return descriptor
            os.close(descriptor)
        return os.open(self._inside(path), PLAINLY & ~os.O_NOFOLLOW)

    def _send_large(self, source: BinaryIO, size: int, offset: int) -> None:
        """What there is from the offset on, and behind it the hash of the whole file as it was read."""
        digest = hashlib.sha256()
        with nothing_but_bytes():
            self._output.write(line({"size": size, "offset": offset}))
            if offset:  # to read what lies before it takes minutes of a very large file
                self._output.flush()
            for data in pieces(source, offset):
                digest.update(data)
            for data in pieces(source, size - offset):
                digest.update(data)
                self._output.write(data)
            self._output.write(line({"sha256": digest.hexdigest()}))

    def _send_small(self, data: bytes, offset: int) -> None:
        """Of a small file the hash is known at once."""
        head = b'{"size":%d,"offset":%d,"sha256":"%s"}\n'
        self._output.write(head % (len(data), offset, hashlib.sha256(data).hexdigest().encode()))
        self._output.write(data[offset:])

    def _put(self, request: Json) -> Json:
        """The rest of a file that is known by its hash: from the offset that ``missing`` has told of."""
        digest, path = _digest(request["sha256"]), str(request["path"])
        offset = integer(request["offset"], "offset")
        left = [integer(request["size"], "size") - offset]
        try:
            self._bring(self._place(path, digest), digest, offset, left)
        except RequestError:
            left[0] = 0  # it ends the connection
            raise
        finally:
            for _ in self._bytes(left):  # the next request lies behind these
                pass
        return {"ok": True}

    def _bring(self, path: str, digest: str, offset: int, left: List[int]) -> None:
        os.makedirs(os.path.join(self._root, "partial"), 0o700, exist_ok=True)
        with _locked(self._partial(digest)) as output:
            if os.path.exists(path):  # another connection has brought it meanwhile
                os.unlink(self._partial(digest))
            else:
                self._take(output, path, digest, offset, left)
                self._publish(digest, path)

    def _take(self, output: BinaryIO, path: str, digest: str, offset: int, left: List[int]) -> None:
        """Write what comes, from the offset on; ``left`` counts what has not come yet."""
        partial = self._partial(digest)
        try:
            output.truncate(offset)
            output.seek(offset)
            for data in self._bytes(left):
                output.write(data)
            output.flush()
            os.fsync(output.fileno())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                os.unlink(partial)  # what is left of it keeps others from writing
                raise OSError(error.errno, "%s; make room on its disk" % error.strerror, path) from error
            raise
        if digest_of(partial) != digest:
            os.unlink(partial)
            raise Damaged("what came is not %s: it was changed on the way, or while it was read" % digest)

    def _publish(self, digest: str, path: str) -> None:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.replace(self._partial(digest), path)
        sync_folder(os.path.dirname(path))

    def _missing(self, request: Json) -> Json:
        """Of files, by hash and path, those that are not here, each with how much of it has come before."""
        wanted = {_digest(digest): str(path) for digest, path in request["files"].items()}
        missing = {}
        for digest, path in wanted.items():
            place = self._place(path, digest)
            try:
                os.utime(place)  # in use: not to be cleaned up, or cleaned up just now
                os.stat(place)  # who had not seen that yet may have taken it away meanwhile
            except (FileNotFoundError, NotADirectoryError):
                missing[digest] = _size(self._partial(digest))
        return {"missing": missing}

    def _lay(self, request: Json) -> Json:
        """A folder with these files, ``[path, sha256, executable]``, made of what has been put here."""
        name = str(request["tree"])
        if not is_id(name):
            raise RequestError("a tree must have an id, not %.80r" % name)
        tree = self._inside(TREES + "/" + name)
        shared = bool(request.get("shared"))
        if shared and _is_laid(tree, request["files"]):
            os.utime(tree)  # in use
        else:
            self._make(tree, request["files"], shared=shared)
        return {"path": tree}

    def _make(self, tree: str, files: List[List[Any]], *, shared: bool) -> None:
        import shutil  # which takes a sixth of the time in which this process starts

        making = "%s.%d.new" % (tree, os.getpid())  # `_tree_of`
        _delete(making)
        os.makedirs(making, 0o700)
        try:
            for path, digest, executable in files:
                target = os.path.join(making, relative(path))
                os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
                shutil.copyfile(self._place(_blob(digest), digest), target)
                os.chmod(target, 0o755 if executable else 0o644)
                os.utime(target, ns=(LAID_AT_NS, LAID_AT_NS))
            self._put_in_place(making, tree, files if shared else None)
        except BaseException:
            _delete(making)
            raise

    def _put_in_place(self, making: str, tree: str, shared: Optional[List[List[Any]]]) -> None:
        """A shared one that another connection has made meanwhile is in use already, and as good."""
        if shared is not None and _is_laid(tree, shared):
            _delete(making)
            return
        _delete(tree)
        os.rename(making, tree)

    def _outputs(self, request: Json) -> Json:
        """The files that patterns mean where an attempt ran: ``[path, size]``."""
        name = str(request["attempt"])
        if not is_id(name):
            raise RequestError("an attempt must have an id, not %.80r" % name)
        tree = os.path.join(TREES, name)
        is_laid = os.path.isdir(self._inside(tree))
        if request.get("laid") is not None:
            return self._changed(tree, request["laid"]) if is_laid else {"gone": True}
        where = tree if is_laid else os.path.join("attempts", name)
        folder = self._inside(where)
        wanted = matcher(str(each) for each in request["patterns"])
        found: List[List[Any]] = []
        links: List[str] = []
        for path in filter(wanted.fullmatch, walk(folder, links=links)):
            if len(found) == OUTPUTS_MAX:
                return {"error": "it left more than %d files; pack them into one" % OUTPUTS_MAX}
            found.append([path, os.path.getsize(os.path.join(folder, path))])
        return {"folder": where, "files": found, **_linked(list(filter(wanted.fullmatch, links)))}

    def _changed(self, tree: str, laid: List[Any]) -> Json:
        """The files of a tree that are new or were written since it was laid out, the largest of too many.

        ``left`` has what cannot be fetched; ``count`` and ``bytes`` are those of all others.
        """
        folder = self._inside(tree)
        left: List[str] = []
        links: List[str] = []
        found: List[List[Any]] = []
        count = total = 0
        for path in changed(folder, {str(each) for each in laid}, LAID_AT_NS, left, links):
            size = os.path.getsize(os.path.join(folder, path))
            count, total = count + 1, total + size
            found.append([path, size])
            if len(found) > 2 * CHANGED_MAX:
                found = _largest(found)
        if count > CHANGED_MAX:
            found = _largest(found)
        told = {"left": _told(left), "left_count": len(left), **_linked(links)}
        return {"folder": tree, "files": found, "count": count, "bytes": total, **told}

    def _find(self, request: Json) -> Json:
        """Artifacts by their hashes, as they are named: ``{sha256: [path, size]}`` of those that are here."""
        found = {}
        wanted: Dict[str, Set[str]] = {}
        for digest in map(_digest, request["sha256"]):
            wanted.setdefault(digest[:2], set()).add(digest)
        real = os.path.realpath(self._root)
        for shelf, digests in wanted.items():
            folder = "%s/objects/%s" % (ARTIFACTS, shelf)
            with self._folder(folder, real) as own:
                for digest in () if own is None else digests:
                    for path in ("%s/%s%s" % (folder, digest, ending) for ending in ENDINGS):
                        size = self._size_inside(own, path)
                        if size is not None:
                            found[digest] = [path, size]
                            break
        return {"found": found}

    def _stock(self, request: Json) -> Json:
        """The artifacts that lie here, in pages."""
        from .stock import listed  # seldom: it would only delay the start of this process

        return listed(self._root, ENDINGS, request)

    def _drop(self, request: Json) -> Json:
        """Remove artifacts that were not used of late."""
        from .stock import drop

        return drop(self._root, ENDINGS, request)

    def _drop_environments(self, request: Json) -> Json:
        """Remove Python environments that were not used of late, until the disk has so much more space."""
        from .environments import FOLDER, make_room

        root, attempts = os.path.join(self._root, FOLDER), os.path.join(self._root, "attempts")
        wanted, unused_s = integer(request["bytes"], "bytes"), seconds(request["unused_s"], "unused_s")
        gone = make_room(root, attempts, wanted, unused_s)
        disk = os.statvfs(self._root)
        return {"gone": gone, "free": disk.f_bavail * disk.f_frsize}

    @contextmanager
    def _folder(self, path: str, real: str) -> Iterator[Optional[int]]:
        """The descriptor of a folder below the agent's, which is ``real`` without links; None where there is none."""
        try:
            descriptor = os.open(os.path.join(self._root, path), _AS_FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        try:
            if not called(descriptor).startswith(real + "/"):
                self._inside(path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _size_inside(self, folder: Optional[int], path: str) -> Optional[int]:
        """The size of a file, if there is one, in a folder that is known to be inside; only a link can lead out."""
        try:
            found = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return os.path.getsize(self._inside(path)) if stat.S_ISLNK(found.st_mode) else found.st_size

    def _clear(self, request: Json) -> Json:
        name = str(request["tree"])
        if not is_id(name):
            raise RequestError("a tree must have an id, not %.80r" % name)
        _delete(self._inside(TREES + "/" + name))
        return {"ok": True}

    def _keep(self, request: Json) -> Json:
        """Delete all trees but these and shared ones, and blobs and partial files that were not used for long.

        A tree that another connection is laying out counts as the tree that it becomes. What cannot be deleted is
        reported when everything else is gone.
        """
        kept, trees = set(request["trees"]), self._inside(TREES)
        failures: List[OSError] = []
        for name in _names(trees):
            tree = os.path.join(trees, name)
            with noted(failures):
                if {name, _tree_of(name)} & kept or (name.startswith("shared-") and _age_s(tree) < _SHARED_UNUSED_S):
                    continue
                _delete(tree)
        for folder in (BLOBS, "partial"):
            for path in _files(self._inside(folder)):
                with noted(failures):
                    if _age_s(path) > _UNUSED_S:
                        os.unlink(path)
        raise_first(failures)
        return {"ok": True}

    def _at(self, request: Json) -> Optional[Json]:
        """All that follows on this connection is of another folder, in which copies of artifacts are kept."""
        from .shelves import Shelf  # which needs this

        root = str(request["root"])
        if not os.path.isabs(root):
            raise RequestError("a folder for copies must be an absolute path, not %.200r" % root)
        if not os.path.isdir(root):
            return {"absent": True}
        self._say({"ok": True})
        Shelf(root, self._input, self._output).serve()
        return None

    def _bytes(self, left: List[int]) -> Iterator[bytes]:
        while left[0] > 0:
            data = self._input.read(min(left[0], COPY_BYTES))
            if not data:
                raise BrokenPipeError(errno.EPIPE, "the other side hung up")
            left[0] -= len(data)
            yield data

    def _place(self, path: str, digest: str) -> str:
        if not path.startswith(self.writable) or not os.path.basename(path).startswith(digest):
            raise RequestError("%.200r is no place for %s" % (path, digest))
        return self._inside(path)

    def _partial(self, digest: str) -> str:
        return os.path.join(self._root, "partial", digest)

    def _inside(self, path: str) -> str:
        """A path below the agent's folder; no link may lead out of it."""
        return inside(self._root, path)


def _tree_of(draft: str) -> str:
    """The name of the tree that a folder becomes, which a process is laying out under ``TREE.PROCESS.new``."""
    tree, _, process = draft[: -len(".new")].rpartition(".")
    return tree if draft.endswith(".new") and process.isdigit() else draft


def digest_of(path: str) -> str:
    """The SHA-256 of a file. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as source:
        while True:
            data = source.read(COPY_BYTES)
            if not data:
                return found.hexdigest()
            found.update(data)


def own_digest() -> Optional[str]:
    """The SHA-256 of the zipapp that this code is from; None where it is from a folder."""
    return digest_of(CODE) if os.path.isfile(CODE) else None


def main(words: List[str]) -> int:
    """Serve files of a folder, the last word, over standard input and output. Returns the exit status.

    Where it is ``of`` a process, these are one socket, whose other side has been let in already by that one: a
    successor of it would not know of this, and somebody may work in what it lays out. A ``guest`` is let in by an
    agent, and with ``serve`` there is none.
    """
    root, mode = os.path.abspath(words[-1]), words[0]
    if mode == "of":
        procs.die_with_parent(int(words[1]))
    # Buffered: many small files are few packets then.
    with _opened(0, "rb", COPY_BYTES) as source, _opened(0 if mode == "of" else 1, "wb", _OUTPUT_BYTES) as output:
        try:
            if mode != "of":
                _widen(1)
                (_ask_to_be_let_in if mode == "guest" else _greet)(root, source, output)
            Files(root, source, output).serve()
        except OSError as error:
            sys.stderr.write("hostler agent: a connection for files ended: %s\n" % error)
            return 1
    if mode == "guest":
        leave(CODE)  # the next one starts in half the time
    return 0


def _opened(fd: int, mode: str, size: int) -> BinaryIO:
    return cast(BinaryIO, open(fd, mode, size, closefd=False))


def _widen(fd: int) -> None:
    """Have a pipe hold more than its 64 KiB: whoever fills it is woken less often. Other things stay as they are."""
    with suppress(OSError):
        fcntl.fcntl(fd, _F_SETPIPE_SZ, COPY_BYTES)


def _ask_to_be_let_in(root: str, source: BinaryIO, output: BinaryIO) -> None:
    """The first line is for the agent, and so is the answer to it; once it hangs up, all is over."""
    agent = connect(root)
    agent.sendall(source.readline(_LONGEST_LINE))
    with agent.makefile("rb") as answers:
        output.write(answers.readline())
    output.flush()
    threading.Thread(target=_end_with, args=(agent,), daemon=True).start()


def _greet(root: str, source: BinaryIO, output: BinaryIO) -> None:
    """Answer the opening line. Who may start this process may do all that it does: its epoch does not matter."""
    data = source.readline(_LONGEST_LINE)
    try:
        opening = decode(data)
        is_ours = opening.get("type") == "files" and opening.get("protocol") == PROTOCOL and os.path.isdir(root)
    except RequestError:
        is_ours = False
    reason = "this serves files of protocol %d in %s" % (PROTOCOL, root)
    hello: Json = {"type": "hello", "protocol": PROTOCOL}
    output.write(line(hello if is_ours else {"type": "refused", "reason": reason, "epoch": 0}))
    output.flush()
    if not is_ours:
        raise OSError(errno.EPROTO, reason)


def _end_with(agent: socket.socket) -> None:
    try:
        agent.recv(1)
    finally:
        os._exit(1)


def _told(paths: List[str]) -> List[str]:
    """The first of some paths, as text."""
    return [each.encode("utf-8", "backslashreplace").decode() for each in paths[:LEFT_SHOWN]]


def _linked(links: List[str]) -> Json:
    """Symbolic links, which are not fetched: some of them, and how many there are."""
    return {"links": _told(links), "links_count": len(links)}


def _largest(files: List[List[Any]]) -> List[List[Any]]:
    return sorted(files, key=lambda file: -file[1])[:CHANGED_MAX]


def _blob(digest: str) -> str:
    return "%s/%s/%s" % (BLOBS, _digest(digest)[:2], digest)


def _digest(value: object) -> str:
    if type(value) is not str or len(value) != 64 or not _HEX.issuperset(value):
        raise RequestError("%.80r is no SHA-256" % value)
    return value


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _age_s(path: str) -> float:
    return time.time() - os.path.getmtime(path)


@contextmanager
def _locked(path: str) -> Iterator[BinaryIO]:
    """The file, made if need be, for one at a time; the one that has the name still when its turn comes."""
    while True:
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            _lock(file)
            if _is_named(file, path):
                yield file
                return


def _lock(file: BinaryIO) -> None:
    """For this process alone. Where a file system has no locks, the hash finds who has disturbed another one."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_named(file: BinaryIO, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:  # whoever had it before has published it
        return False


def _names(folder: str) -> List[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _files(folder: str) -> List[str]:
    return [os.path.join(folder, path) for path in walk(folder)] if os.path.isdir(folder) else []


def _is_laid(tree: str, files: List[List[Any]]) -> bool:
    """Whether a shared folder is there.

    One with none of its files was made by a process that outlived the deletion: Python makes the folders of its caches.
    """
    names = [relative(path) for path, _, _ in files]
    return os.path.isdir(tree) and (not names or any(os.path.lexists(os.path.join(tree, name)) for name in names))


def _delete(tree: str) -> None:
    if os.path.isdir(tree):
        remove(tree)


def sync_folder(folder: str) -> None:
    """Have the names in it on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
