"""Calls as people write them, in the language of the generator, and the outputs they stand for; both ways.

``mt_rand(1, 100)`` of PHP is ``range(min=1, max=100)``, ``Math.floor(Math.random() * 15)`` of JavaScript is
``floor(n=15)``. The tables are in :mod:`hostler.workloads.sieve.spellings`; besides, every kind of output of every
generator can be written in our own form, ``kind(argument=value)``. Texts are read with Python's own parser after a few
replacements, brought into one form, and compared with the spellings of the table. Nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import Generator, Output
from hostler.workloads.sieve.generators.mappings import Bits, Chosen, Float
from hostler.workloads.sieve.spellings import BARE, SPELLINGS, Spelling

MOST_TEXT = 2_000
MOST_BITS = 4_096
"""Of constants."""
_UNCLEAR = re.compile(r"<<\s*\w+\s*[-+]|[-+]\s*\w+\s*<<")
"""``1<<31-1`` is 2^31 - 1 in Go and 2^30 elsewhere."""
FLOORS = frozenset({"floor", "int", "trunc", "to_i", "parseInt", "long"})
CHOICES = ("range", "randrange", "bound", "below", "intn", "mod", "floor")
"""The kinds that programs usually draw a bounded integer with, the most usual first."""

Tree = tuple[Any, ...]
"""``("int", 5)``, ``("call", name, arguments, names of keyword arguments)``, ``("%", left, right)`` and so on."""

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Mod: "%", ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.Div: "/", ast.RShift: ">>", ast.LShift: "<<",
    ast.BitAnd: "&", ast.BitOr: "|", ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip
_FOLDED: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "<<": int.__lshift__, "**": lambda a, b: int(a**b),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Natural:
    """A usual call for some bounded integers: its output is the integer less ``shift``."""

    output: Output
    shift: int


def parse(made_by: Generator, text: str) -> tuple[Output, ...]:
    """The outputs of calls parted by ``;``, in the order they are made; raises :class:`SpecError`."""
    calls = [call.strip() for call in text.strip().removesuffix(";").split(";")]
    if len(text) > MOST_TEXT or not all(calls):
        raise SpecError(f"calls: {text!r:.60}: write one call, or several parted by ;, {MOST_TEXT} letters at most")
    return tuple(_output(made_by, call) for call in calls)


def native(made_by: Generator, outputs: Sequence[Output]) -> str:
    """The calls as :func:`parse` takes them, in the language of the generator where that has a spelling."""
    return "; ".join(_shown(made_by, output) for output in outputs)


def natural(made_by: Generator, low: int, high: int) -> tuple[Natural, ...]:
    """The usual calls of this generator for the integers ``low..high``, the most usual first; empty if there is none.

    Calls that can only count from 0 have a ``shift``, as in ``rand() % 6 + 1``: the draws are theirs plus it.
    """
    found: list[Natural] = []
    choosers: list[object] = []
    fair = _chooser(made_by.outputs.get("range"))
    for kind in CHOICES:
        of = made_by.outputs.get(kind)
        chooser = _chooser(of)
        # The same choice from 0 up is shown by the call that needs no lower end.
        twin = kind == "range" and low == 0 and any(_chooser(made_by.outputs.get(k)) == fair for k in CHOICES[1:])
        if of is None or twin or chooser in choosers or (chooser == fair and kind != "range" and low != 0):
            continue
        made = _made(of, [low, high] if kind == "range" else [high - low + 1])
        if made is not None:
            choosers.append(chooser)
            found.append(Natural(made, 0 if kind == "range" else low))
    return (*found, *(Natural(whole, 0) for whole in _whole_ones(made_by, low, high)))


# ---- from texts to outputs ------------------------------------------------------------------------------------------


def _output(made_by: Generator, text: str) -> Output:
    tree = _tree(text)
    found = _matched(made_by, tree, text) or _own(made_by, tree, text) or _moved(made_by, tree, text)
    if found is None:
        raise SpecError(_unknown(made_by, tree, text))
    return found


def _matched(made_by: Generator, tree: Tree, text: str) -> Output | None:
    """By the table of the generator's language."""
    for spelling in _table(made_by):
        holes: dict[str, int] = {}
        if _fits(_tree(spelling.text, template=True), tree, holes):
            return _from_holes(made_by, spelling, holes, text)
    return None


def _own(made_by: Generator, tree: Tree, text: str) -> Output | None:
    """By our own form: a kind with its arguments, by name or in their order."""
    if tree[0] != "call" or tree[1] not in made_by.outputs:
        return None
    _, kind, values, names = tree
    if kind in FLOORS and any(value[0] != "int" for value in values):
        return None  # of an expression, in the language of the generator
    needed = [each.name for each in fields(made_by.outputs[kind])]
    given = list(needed[: len(values) - len(names)]) + list(names)
    fits = len(values) == len(needed) and sorted(given) == sorted(needed)
    if not fits or any(value[0] != "int" for value in values):
        raise SpecError(f"calls: {text}: {kind} of {made_by.name} is written {_own_form(made_by, kind)}, with integers")
    return _build(made_by, kind, {name: value[1] for name, value in zip(given, values, strict=True)}, text)


def _moved(made_by: Generator, tree: Tree, text: str) -> Output | None:
    """``rand(6) + 1``: the range from 1 to 6 where the runtime makes both in the same way; else it is refused."""
    if tree[0] not in "+-" or tree[2][0] != "int":
        return None
    shift = tree[2][1] if tree[0] == "+" else -tree[2][1]
    inner = _matched(made_by, tree[1], text) or _own(made_by, tree[1], text)
    if inner is None:
        return None
    of = made_by.outputs.get("range")
    if of is not None and isinstance(inner, Chosen) and inner.chooser == _chooser(of):
        low = inner.lowest + shift
        return _build(made_by, "range", {"min": low, "max": low + inner.size - 1}, text)
    cure = f"subtract {shift} from" if shift > 0 else f"add {-shift} to"
    raise SpecError(f"calls: {text}: {cure} the draws, and write {_shown(made_by, inner)}")


def _from_holes(made_by: Generator, spelling: Spelling, holes: Mapping[str, int], text: str) -> Output:
    if spelling.kind == "bits":
        return _build(made_by, "bits", _bits(made_by, holes, text), text)
    given = {}
    for name, source in spelling.sources.items():
        given[name] = source if isinstance(source, int) else holes[source[0]] + source[1]
    return _build(made_by, spelling.kind, given, text)


def _bits(made_by: Generator, holes: Mapping[str, int], text: str) -> dict[str, int]:
    """``>> SHIFT & MASK`` of a number, as bits of the word it is a part of."""
    part = _number(made_by)
    shift, mask = holes.get("SHIFT", 0), holes.get("MASK")
    bits = part.bits - shift if mask is None else mask.bit_length()
    if mask is not None and (mask <= 0 or mask & (mask + 1)):
        raise SpecError(f"calls: {text}: the mask {mask} is not one of the lowest bits alone, such as 255")
    if shift < 0 or shift >= part.bits:
        raise SpecError(f"calls: {text}: nothing is left of a number of {part.bits} bits; shift by less")
    return {"shift": part.shift + shift, "bits": min(bits, part.bits - shift)}


def _build(made_by: Generator, kind: str, given: Mapping[str, int], text: str) -> Output:
    try:
        return made_by.outputs[kind](**given)
    except SpecError as error:
        raise SpecError(f"calls: {text}: {error}") from None


def _unknown(made_by: Generator, tree: Tree, text: str) -> str:
    """What the generator knows, with the nearest spelling."""
    known = {spelling.text: _name_of(_tree(spelling.text, template=True)) for spelling in _table(made_by)}
    own = [_own_form(made_by, kind) for kind in made_by.outputs]
    name = _name_of(tree)
    names = [name] if name in known.values() else get_close_matches(name, list(known.values()), 1)
    near = [spelling for spelling, of in known.items() if of in names]
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    return (
        f"calls: {made_by.name} knows no {text}{meant} It knows {', '.join(known)}; "
        f"in our own form {', '.join(own)}; capitals stand for integers"
    )


# ---- from outputs to texts ------------------------------------------------------------------------------------------


def _shown(made_by: Generator, output: Output) -> str:
    for spelling in _table(made_by):
        if spelling.kind == output.kind and (holes := _holes(made_by, spelling, output)) is not None:
            return re.sub(r"\b[A-Z]+\b", lambda found: str(holes.get(found[0], found[0])), spelling.text)
    values = ", ".join(f"{each.name}={getattr(output, each.name)}" for each in fields(output))
    return f"{output.kind}({values})"


def _holes(made_by: Generator, spelling: Spelling, output: Output) -> dict[str, int] | None:
    """What the names of the spelling stand for; ``None`` where it cannot say this output."""
    if spelling.kind == "bits":
        return _masked(made_by, spelling, output)
    holes: dict[str, int] = {}
    for name, source in spelling.sources.items():
        value: int = getattr(output, name)
        if isinstance(source, int):
            if source != value:
                return None
        else:
            holes[source[0]] = value - source[1]
    return holes


def _masked(made_by: Generator, spelling: Spelling, output: Output) -> dict[str, int] | None:
    part, cut = _number(made_by), {each.name: int(getattr(output, each.name)) for each in fields(output)}
    shift = cut["shift"] - part.shift
    rest = shift >= 0 and shift + cut["bits"] == part.bits
    if shift < 0 or shift + cut["bits"] > part.bits:
        return None
    if "MASK" not in spelling.text:
        return {"SHIFT": shift} if rest and shift else None
    if ("SHIFT" in spelling.text) != (shift > 0) or rest:
        return None
    return {"SHIFT": shift, "MASK": (1 << cut["bits"]) - 1}


def _own_form(made_by: Generator, kind: str) -> str:
    names = ", ".join(f"{each.name}={each.name.upper()}" for each in fields(made_by.outputs[kind]))
    return f"{kind}({names})"


# ---- tables and outputs ---------------------------------------------------------------------------------------------


def _table(made_by: Generator) -> tuple[Spelling, ...]:
    return SPELLINGS.get(made_by.name, BARE)


def _number(made_by: Generator) -> Any:
    """The part of a word that is the number of a bare generator."""
    exact = made_by.outputs["exact"]
    assert issubclass(exact, Bits)
    return exact.parts[0]


def _chooser(of: type[Output] | None) -> object:
    return of.chooser if of is not None and issubclass(of, Chosen) else None


def _made(of: type[Output], values: Sequence[int]) -> Output | None:
    """The output with these arguments, if it can have them."""
    try:
        return of(*values)
    except SpecError:
        return None


def _whole_ones(made_by: Generator, low: int, high: int) -> list[Output]:
    """Calls without arguments whose results are just these integers."""
    wholes = [of() for of in made_by.outputs.values() if not fields(of) and not issubclass(of, Float)]
    return [whole for whole in wholes if (whole.lowest, whole.size) == (low, high - low + 1)]


# ---- reading --------------------------------------------------------------------------------------------------------


@lru_cache(1024)
def _tree(text: str, *, template: bool = False) -> Tree:
    """The text in its one form; raises :class:`SpecError`."""
    if unclear := _UNCLEAR.search(text):
        raise SpecError(f"calls: {text!r:.80}: {unclear[0]}: languages differ in what comes first; write the number")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, on numbers that it would write otherwise
            parsed = ast.parse(_as_python(text), mode="eval").body
        return _normal(parsed, template)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(f"calls: {text!r:.80} cannot be read; write a call such as name(1, 100)") from None


def _as_python(text: str) -> str:
    """What other languages write otherwise, as Python's parser takes it."""
    text = text.replace("::", ".").replace("->", ".").replace("$", "").replace("\\", "")
    text = re.sub(r"([\w-]+)\s*\.\.\.\s*([\w-]+)", r"upto_(\1, \2)", text)
    text = re.sub(r"([\w-]+)\s*\.\.\s*([\w-]+)", r"span_(\1, \2)", text)
    return re.sub(r"\((int|long)\)\s*", "floor @ ", text).strip()


def _normal(node: ast.expr, template: bool) -> Tree:
    if isinstance(node, ast.Constant):
        return "int", _whole(node.value)
    if isinstance(node, ast.Name):
        hole = template and node.id.isupper() and "_" not in node.id  # RAND_MAX is itself
        return ("hole", node.id) if hole else ("call", node.id, (), ())
    if isinstance(node, ast.Attribute):
        return _method(node, template)
    if isinstance(node, ast.Call):
        return _call(node, template)
    if isinstance(node, ast.UnaryOp):
        return _unary(node, template)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _binary(node, template)
    raise ValueError("nothing that calls are made of")


def _whole(value: object) -> int:
    if type(value) is int or (type(value) is float and value.is_integer()):
        return int(value)
    raise ValueError("a constant that is no integer")


def _floor(of: Tree) -> Tree:
    """Cut to an integer, once."""
    return of if of[:2] == ("call", "floor") else ("call", "floor", (of,), ())


def _method(node: ast.Attribute, template: bool) -> Tree:
    """``x.name`` without arguments: ``floor`` of an expression, or a call of an object or module."""
    if node.attr in FLOORS and not isinstance(node.value, ast.Name):
        return _floor(_normal(node.value, template))
    return "call", node.attr, (), ()


def _call(node: ast.Call, template: bool) -> Tree:
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if not node.args and name in FLOORS and not isinstance(node.func.value, ast.Name):
            return _method(node.func, template)
    elif isinstance(node.func, ast.Name):
        name = node.func.id
    else:
        raise ValueError("a call of what has no name")
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    names = tuple(keyword.arg or "" for keyword in node.keywords)
    if name in FLOORS and len(values) == 1 and not names and not isinstance(values[0], ast.Constant):
        # A hole stays an argument, as in floor(n), our own form.
        made = _normal(values[0], template)
        return _floor(made) if made[0] != "hole" else ("call", name, (made,), ())
    return "call", name, tuple(_normal(value, template) for value in values), names


def _unary(node: ast.UnaryOp, template: bool) -> Tree:
    inside = node.operand
    if isinstance(node.op, ast.Invert) and isinstance(inside, ast.UnaryOp) and isinstance(inside.op, ast.Invert):
        return _floor(_normal(inside.operand, template))
    value = _normal(inside, template)
    if isinstance(node.op, ast.USub) and value[0] == "int":
        return "int", -value[1]
    raise ValueError("nothing that calls are made of")


def _binary(node: ast.BinOp, template: bool) -> Tree:
    sign, left, right = _OPERATORS[type(node.op)], _normal(node.left, template), _normal(node.right, template)
    if left[0] == right[0] == "int" and sign in _FOLDED:
        return "int", _folded(sign, left[1], right[1])
    if sign == "@":
        return _floor(right)
    if sign == "|" and right == ("int", 0):
        return _floor(left)
    if sign in "*+&" and left[0] == "int":
        left, right = right, left
    return sign, left, right


def _folded(sign: str, left: int, right: int) -> int:
    """Arithmetic of constants, of the sizes that calls have."""
    bits = {"<<": left.bit_length() + right, "**": left.bit_length() * right}.get(sign, 0)
    if bits > MOST_BITS or (right < 0 and sign in ("<<", "**")):
        raise ValueError("a power out of range")
    return _FOLDED[sign](left, right)


def _fits(template: Tree, tree: Tree, holes: dict[str, int]) -> bool:
    """Whether the text is of this spelling; ``holes`` take what its names stand for."""
    if template[0] == "hole":
        if tree[0] != "int":
            return False
        holes[template[1]] = tree[1]
        return True
    if template[0] != tree[0]:
        return False
    if template[0] == "int":
        return bool(template == tree)
    if template[0] == "call":
        same = template[1] == tree[1] and len(template[2]) == len(tree[2]) and not tree[3]
        return same and all(_fits(a, b, holes) for a, b in zip(template[2], tree[2], strict=True))
    return _fits(template[1], tree[1], holes) and _fits(template[2], tree[2], holes)


def _name_of(tree: Tree) -> str:
    """The name of the innermost call, the one that draws."""
    inner = tree[2] if tree[0] == "call" else tree[1:] if tree[0] not in ("int", "hole") else ()
    for part in inner:
        if part[0] not in ("int", "hole") and part[1] not in ("span_", "upto_"):
            return _name_of(part)
    return str(tree[1]) if tree[0] == "call" else ""
