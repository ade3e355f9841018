from typing import Any

import pytest

from hostler.workloads.alphazero.fields import Fields, OrderError, common
from tests.workloads.alphazero.stages import CONFIG, common_order

SHA = "ab" * 32


def test_every_type_is_read_as_it_is() -> None:
    given = {"i": 3, "n": 2, "b": True, "t": "x", "s": SHA, "o": {"k": 1}, "l": [{"k": 1}], "z": None, "y": {"p": 1.5}}
    fields = Fields(given)
    assert (fields.integer("i"), fields.number("n"), fields.boolean("b"), fields.text("t")) == (3, 2.0, True, "x")
    assert (fields.sha256("s"), fields.fields("o").integer("k")) == (SHA, 1)
    assert [each.integer("k") for each in fields.each("l")] == [1]
    assert "z" not in fields
    assert "i" in fields
    players = fields.fields("y")
    assert {name: players.number(name) for name in players.names()} == {"p": 1.5}
    players.end()
    fields.end()


@pytest.mark.parametrize(
    ("reader", "value", "told"),
    [
        ("integer", 1.0, "order.x: must be an integer in 0"),
        ("integer", True, "must be an integer"),
        ("integer", -1, "must be an integer in 0"),
        ("number", float("nan"), "must be a number"),
        ("number", float("inf"), "must be a number"),
        ("number", "1", "must be a number"),
        ("boolean", 1, "must be true or false, not 1"),
        ("text", "", "must be a text"),
        ("text", ["x" * 500], "must be a text that is not empty"),
        ("sha256", SHA.upper(), "must be a SHA-256"),
        ("fields", [], "order.x: must be an object"),
        ("each", {}, "order.x: must be a list"),
        ("each", [1], r"order.x\[0\]: must be an object, not 1"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_there(reader: str, value: object, told: str) -> None:
    with pytest.raises(OrderError, match=told) as caught:
        getattr(Fields({"x": value}), reader)("x")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("reader", ["integer", "number", "boolean", "text", "sha256", "fields", "each", "any"])
def test_a_missing_field_is_named(reader: str) -> None:
    with pytest.raises(OrderError, match=r"order\.x: missing"):
        getattr(Fields({}), reader)("x")


def test_an_unknown_field_is_an_error_that_tells_the_known_ones() -> None:
    fields = Fields({"games": 1, "gmaes": 2})
    fields.integer("games")
    with pytest.raises(OrderError, match=r"order: unknown gmaes; the fields are games"):
        fields.end()


def test_the_common_part_makes_the_game() -> None:
    read = common(Fields(common_order()))
    assert (read.config, read.seed, read.game.name) == (CONFIG, 17, "spacing 15 2p")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": -1}, r"order\.seed"),
        ({"seed": 2**64}, r"order\.seed"),
        ({"config": None}, r"order\.config"),
        ({"game": {"factory": "no.such:make", "params": {}}}, r"order\.game: .*no\.such"),
        ({"game": {"factory": "json:dumps", "params": {"obj": 1}}}, r"order\.game: .*no game"),
        ({"game": {"factory": "tests.workloads.alphazero.trivial:make", "params": {"nonsense": 1}}}, "nonsense"),
        ({"game": {"factory": "tests.workloads.alphazero.trivial:make", "params": []}}, r"order\.game\.params"),
        ({"game": {"factory": "x:y", "params": {}, "more": 1}}, r"order\.game: unknown more"),
    ],
)
def test_a_wrong_common_part_is_named(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(OrderError, match=told):
        common(Fields({**common_order(), **changed}))


def test_a_number_beyond_all_floats_is_refused() -> None:
    with pytest.raises(OrderError, match="must be a number in"):
        Fields({"quality": 10**400}).number("quality")
