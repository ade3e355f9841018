#!/usr/bin/env python3
"""Builds the documentation site: a broken link, a wrong anchor or a page outside of the navigation is an error.

python scripts/make_site.py [FOLDER]        the project in FOLDER, by default this one, into build/site

The site has the README as its first page, every page below docs/, and the files of the project that they link.
zensical (`zensical.toml`) renders copies of them in build/site-source, under their paths in the project, so that a link
leads to the same file on the site and in the repository. In the copies, the words after the language of a code block,
which tests read, are removed; the name of a file becomes its title.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = "zensical.toml"
FIRST = "README.md"
PAGES = "docs"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+)[ ]+(\S.*)$", re.M)
FILE_NAME = re.compile(r"(?:file=)?([\w-]+\.\w+)")
NAVIGATION: TypeAlias = "str | list[NAVIGATION] | dict[str, NAVIGATION]"


def main() -> int:
    """Check the navigation, copy, build; the exit status is 0 if the site is without faults."""
    project = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    if importlib.util.find_spec("zensical") is None:
        print("site: zensical is not installed. `make docs` installs it", file=sys.stderr)
        return 2
    settings = tomllib.loads((project / SETTINGS).read_text())["project"]
    pages = sorted(str(path.relative_to(project)) for path in (project / PAGES).rglob("*.md"))
    needed = _needed(project, [FIRST, *pages])
    faults = [*_navigation_faults(project, settings["nav"], pages), *_link_faults(project, needed)]
    for fault in faults:
        print(f"site: {fault}")
    source = project / settings["docs_dir"]
    shutil.rmtree(source, ignore_errors=True)
    for name in sorted(needed):
        _copy(project / name, source / name)
    status = _build(project)
    return 1 if faults else status


def _navigation_faults(project: Path, navigation: NAVIGATION, pages: list[str]) -> Iterator[str]:
    named = list(_names(navigation))
    for page in pages:
        if page not in named:
            yield f"{page} is not in the navigation. Add it to `nav` of {SETTINGS}"
    for name in sorted(set(named)):
        if not (project / name).is_file():
            yield f"`nav` of {SETTINGS} names {name}, which does not exist"
        elif named.count(name) > 1:
            yield f"`nav` of {SETTINGS} names {name} twice"


def _names(navigation: NAVIGATION) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from _names(entry)


def _link_faults(project: Path, needed: Iterable[str]) -> Iterator[str]:
    """Links to files that are not pages, which zensical does not check."""
    for name in sorted(needed):
        for place in _links(project, name):
            if place.suffix != ".md" and not (place.is_file() and place.is_relative_to(project)):
                yield f"{name} links {os.path.relpath(place, project)}, which is not a file of the project"


def _needed(project: Path, pages: list[str]) -> set[str]:
    """The pages, and the files that they link, directly or through other pages."""
    found: set[str] = set()
    waiting = list(pages)
    while waiting:
        name = waiting.pop()
        if name not in found and (project / name).is_file():
            found.add(name)
            places = [place for place in _links(project, name) if place.is_relative_to(project)]
            waiting += [str(place.relative_to(project)) for place in places]
    return found


def _links(project: Path, name: str) -> list[Path]:
    """The files that a page links; other files have no links."""
    if not name.endswith(".md"):
        return []
    links = [link.partition("#")[0] for link in LINK.findall((project / name).read_text())]
    return [((project / name).parent / link).resolve() for link in links if link and "://" not in link]


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".md":
        to.write_text(FENCE.sub(_fence, file.read_text()))
    else:
        shutil.copyfile(file, to)


def _fence(match: re.Match[str]) -> str:
    named = FILE_NAME.fullmatch(match[2])
    return f"```{match[1]}" + (f' title="{named[1]}"' if named else "")


def _build(project: Path) -> int:
    words = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(project / SETTINGS)]
    environment = {**os.environ, "NO_COLOR": "1"}
    built = subprocess.run(
        words, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    # After its warnings it prints where it was aborted, as a traceback.
    print(built.stdout.partition("Traceback (most recent call last):")[0], end="")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
