"""Reading what people have written: every key is read, and known, and of the type it should be, or it is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import yaml

T = TypeVar("T")
_MISSING = object()


class SpecError(ValueError):
    """Something that was written cannot be meant; the message says where it stands and what may stand there."""


class Fields:
    """The keys of one mapping, each to be taken once."""

    def __init__(self, value: object, where: str, named: Mapping[str, str] | None = None) -> None:
        """`named`: what else keys are called, where they did not come from what was written."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise SpecError(f"{where or 'the file'} has to be a mapping of names, not {_told(value)}")
        self._values: dict[str, Any] = dict(value)
        self._known: list[str] = []
        self._where = where
        self._named = named or {}

    def __contains__(self, key: str) -> bool:
        """Whether it was written, and not taken yet."""
        return key in self._values

    def at(self, key: str) -> str:
        """Where a key stands, for people."""
        if key in self._named:
            return self._named[key]
        return f"{self._where}.{key}" if self._where else key

    def take(self, key: str, default: Any = _MISSING) -> Any:
        """A value as it was written."""
        self._known.append(key)
        if key in self._values:
            return self._values.pop(key)
        if default is _MISSING:
            raise SpecError(f"{self.at(key)} is missing")
        return default

    def text(self, key: str, default: Any = _MISSING) -> Any:
        """A text; what has a default may be `None` there."""
        return self._typed(key, default, lambda value: isinstance(value, str), "a text")

    def flag(self, key: str, default: Any = _MISSING) -> Any:
        """`true` or `false`."""
        return self._typed(key, default, lambda value: isinstance(value, bool), "true or false")

    def whole(self, key: str, default: Any = _MISSING, *, least: int = 0, most: int = 2**31) -> Any:
        """A whole number in `[least, most]`."""
        return self._typed(
            key,
            default,
            lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
            f"a whole number from {least} to {most}",
        )

    def number(self, key: str, default: Any = _MISSING, *, least: float = -1e9, most: float = 1e9) -> Any:
        """A number in `[least, most]`."""
        return self._typed(
            key,
            default,
            lambda value: isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most,
            f"a number from {least:g} to {most:g}",
        )

    def choice(self, key: str, of: tuple[str, ...], default: Any = _MISSING) -> Any:
        """One of these words."""
        return self._typed(key, default, lambda value: value in of, f"one of {', '.join(of)}")

    def texts(self, key: str, default: Any = _MISSING) -> tuple[str, ...]:
        """Texts in a list that is not empty, none of them twice; a single one may stand without a list."""
        found = self.take(key, default)
        listed = [found] if isinstance(found, str) else found
        if not isinstance(listed, list | tuple) or not listed or not all(isinstance(each, str) for each in listed):
            raise SpecError(f"{self.at(key)} has to be a list of texts, not {_told(found)}")
        if len(set(listed)) != len(listed):
            raise SpecError(f"{self.at(key)} names something twice")
        return tuple(listed)

    def listed(self, key: str, default: Any = _MISSING) -> Any:
        """A list, of whatever."""
        return self._typed(key, default, lambda value: isinstance(value, list), "a list")

    def inner(self, key: str, default: Any = _MISSING) -> Fields:
        """The mapping there."""
        return Fields(self.take(key, default), self.at(key))

    def each(self) -> Iterator[tuple[str, Any]]:
        """All keys that are left, with their values."""
        while self._values:
            key = next(iter(self._values))
            yield key, self.take(key)

    def end(self) -> None:
        """Raises `SpecError` for what nobody has taken."""
        if self._values:
            known = ", ".join(sorted(set(self._known)))
            raise SpecError(f"{self.at(next(iter(self._values)))} is nothing that is known here (known: {known})")

    def _typed(self, key: str, default: Any, fits: Callable[[Any], bool], wanted: str) -> Any:
        value = self.take(key, default)
        if value is default:
            return value
        try:
            fitting = fits(value)
        except TypeError:
            fitting = False
        if not fitting:
            raise SpecError(f"{self.at(key)} has to be {wanted}, not {_told(value)}")
        return value


@contextmanager
def fields(value: object, where: str = "", named: Mapping[str, str] | None = None) -> Iterator[Fields]:
    """The keys of a mapping; the end of the block is the end of what may be in it. `named`: as `Fields` has it."""
    made = Fields(value, where, named)
    yield made
    made.end()


def loaded(text: str) -> Any:
    """What a text of YAML says. Raises `SpecError`, also for a key that is written twice."""
    try:
        return yaml.load(text, _Once)  # noqa: S506 - a safe loader that is stricter
    except SpecError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # days that are in no calendar, for one
        raise SpecError(f"this is no YAML: {error}") from error


class _Once(yaml.SafeLoader):
    """Of two equal keys YAML takes the last, and nobody learns that there was another."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                raise SpecError(
                    f"{key} stands there twice, the second time in line {node.value[at][0].start_mark.line + 1}"
                )
        return super().construct_mapping(node, deep)


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
