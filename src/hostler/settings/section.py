"""What all settings are made of: the base of every section, and types that several of them share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from hostler.model.patterns import pattern_fault
from hostler.model.secrets import SecretName
from hostler.model.work import NAME_MAX, Resources
from hostler.settings.ranges import parse_integer


def sensible(need: Resources) -> Resources:
    """The needs. Raises `ValueError` where they contradict each other."""
    if need.cpu_too and not need.takes_any_device:
        raise ValueError(f"cpu_too allows for a CPU slot where device is any; here it is {need.device}")
    if need.device == "cpu" and need.gpus > 1:
        raise ValueError(f"gpus asks for {counted(need.gpus)}, and device is cpu; leave one of the two out")
    if need.shards and need.vram_gb == 0:
        raise ValueError("shards spreads vram_gb over several GPUs; give it")
    if len(set(need.tiers)) < len(need.tiers):
        raise ValueError("tiers names one twice; once is enough")
    return need


def counted(gpus: int) -> str:
    """So many GPUs."""
    return f"{gpus} GPU{'' if gpus == 1 else 's'}"


NOT_A_TEXT = "should be a text or a number (put it in quotes)"
"""Of a boolean, which programs write differently."""


def as_text(value: object) -> object:
    """The text of a number, as Python prints it; other values as they are. Raises `ValueError` for a boolean."""
    if isinstance(value, bool):
        raise ValueError(NOT_A_TEXT)
    return str(value) if isinstance(value, int | float) else value


def as_texts(value: object) -> object:
    """A list, also where one text or number alone is given. Raises `ValueError` for a boolean."""
    if isinstance(value, bool):
        raise ValueError(NOT_A_TEXT)
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str | int | float) else value


Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
NodeName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Integer: TypeAlias = Annotated[int, BeforeValidator(parse_integer, json_schema_input_type=int | str)]
Count: TypeAlias = Annotated[Integer, Field(ge=1, le=2**63 - 1)]
Word: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00]*$")]
WordOrNumber: TypeAlias = Annotated[Word, BeforeValidator(as_text, json_schema_input_type=Word | float)]
"""Of a command, or the value of a variable; a number stands for its digits."""
Command: TypeAlias = Annotated[tuple[WordOrNumber, ...], Field(min_length=1)]
Needs: TypeAlias = Annotated[Resources, AfterValidator(sensible)]
Environment: TypeAlias = dict[Annotated[str, Field(pattern=r"^[^=\x00]+$")], WordOrNumber]


def _stays_inside(pattern: str) -> str:
    fault = pattern_fault(pattern)
    if fault is not None:
        raise ValueError(f"{pattern!r} {fault}")
    if "[" in pattern:
        raise ValueError(f"{pattern!r}: patterns know *, ? and **; write one for each name")
    return pattern


Pattern: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_stays_inside)]
"""Of files in a folder."""
Patterns: TypeAlias = Annotated[
    tuple[Annotated[Pattern, BeforeValidator(as_text)], ...],
    BeforeValidator(as_texts, json_schema_input_type=tuple[Pattern | float, ...] | Pattern | float),
]
"""Several of them; one alone needs no list."""
Names: TypeAlias = Annotated[
    tuple[Annotated[Name, BeforeValidator(as_text)], ...],
    BeforeValidator(as_texts, json_schema_input_type=tuple[Name | float, ...] | Name | float),
]
"""Several names; one alone needs no list."""


class Section(BaseModel):
    """Base of all settings: immutable, no unknown keys, no conversions of types.

    The texts below the fields are their descriptions in the schema (`settings.descriptions`).
    """

    # `defer_build`: one validator is built, of the whole fleet file, and none for each section as it is imported.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class SecretValue(Section):
    """A secret as the value of an environment variable."""

    secret: SecretName
    """Its name, as `hostler secret list` shows it."""


JobEnvironment: TypeAlias = dict[Annotated[str, Field(pattern=r"^[^=\x00]+$")], WordOrNumber | SecretValue]


def values_in(env: JobEnvironment) -> dict[str, str]:
    """The variables whose values are written in an environment."""
    return {name: value for name, value in env.items() if isinstance(value, str)}


def secrets_in(env: JobEnvironment) -> dict[str, str]:
    """The variables whose values are secrets, by the names of these."""
    return {name: value.secret for name, value in env.items() if not isinstance(value, str)}
