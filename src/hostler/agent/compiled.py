"""The agent, compiled: beside ``agent.pyz``, for each version of Python that has run it there, an ``agent.pyz.TAG``.

A zipapp is compiled anew at every start, by every allocation of a cluster. What is left here is a zipapp, too, with the
same sources and what Python has made of them; the ``__main__.py`` of the first one prefers it. No other version takes
notice of it: its name, and the mark of each file in it, are this one's.
"""

from __future__ import annotations

import os
import sys

_UNCHECKED = b"\x01\0\0\0"  # by a hash that nobody compares: the source lies beside it, and neither ever changes
_HASH_BYTES = 8


def leave(code: str) -> None:
    """Compile the zipapp ``code`` for this Python, unless that is done. Who cannot write there does without."""
    from .node import log  # most who import this module only ask where they are from, and shall start soon
    from .shared import publish

    target = path_of(code)
    if not os.path.isfile(code) or os.path.exists(target):
        return
    try:
        with open(code, "rb") as source:
            data = source.read()
        publish(target, archive(data))
    except OSError as error:
        if not os.path.isfile(code):
            return  # the folder was taken away meanwhile: nobody starts it from there again
        log("cannot write %s: %s; the agent is compiled at every start" % (target, error.strerror))


def search_path(code: str) -> str:
    """What ``PYTHONPATH`` has to be for the zipapp ``code``: what is compiled comes first, if there is any."""
    return os.pathsep.join((path_of(code), code))


def origin(code: str) -> str:
    """The zipapp that ``code`` was compiled from; what is not compiled is its own."""
    end = path_of("")
    return code[: -len(end)] if code.endswith(end) else code


def path_of(code: str) -> str:
    """Where the zipapp ``code`` looks for what this Python has compiled. As ``__main__.py`` has it, too (build.py)."""
    return "%s.%s" % (code, sys.implementation.cache_tag)


def archive(zipapp: bytes) -> bytes:
    """The bytes of a zipapp with its sources, and what this Python compiles them to."""
    import io
    import marshal
    import zipfile
    from importlib.util import MAGIC_NUMBER

    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(zipapp)) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            text = source.read(name)
            target.writestr(zipfile.ZipInfo(name), text)
            if name.endswith(".py"):
                # A traceback finds the lines through the zipapp that a module was loaded from, wherever that is.
                made = compile(text, "agent.pyz/" + name, "exec", dont_inherit=True)
                mark = MAGIC_NUMBER + _UNCHECKED + bytes(_HASH_BYTES)
                target.writestr(zipfile.ZipInfo(name + "c"), mark + marshal.dumps(made))
    return buffer.getvalue()
