"""Does a language model answer, and does it heed the schema of its answer? Over OpenAI's protocol.

The question has nothing to do with the schema: a server that does not constrain its answers is found out by them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hostler.model.record import record
from hostler.runtime.preflight.proof import Proof, error, ok

if TYPE_CHECKING:
    import httpx2

BUTTONS = ("noop", "up", "down", "left", "right", "a", "b")
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": list(BUTTONS)}},
    "required": ["action"],
    "additionalProperties": False,
}
QUESTION = "Greet me in one short sentence."
TOKENS = 64
ANSWER_MAX = 1 << 20
SAID_MAX = 160
SLOW_TIMES = 2.0
"""An answer that takes so many times what was planned is told of."""
MODELS_MISSING = frozenset({404, 405, 501})
BUSY, KEYLESS, NOWHERE = 429, frozenset({401, 403}), frozenset({404, 405})


@record
class Asked:
    """Who is asked, and how patiently."""

    endpoint: str
    """What clients of OpenAI call the base: `/chat/completions` comes after it."""
    model: str | None
    key: str | None
    timeout_s: float
    planned_s: float | None = None
    """How long an answer takes, as it was planned."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Asked({self.endpoint!r}, {self.model!r})"

    @property
    def base(self) -> str:
        """What all paths begin with: as it is written, for the training asks there, too."""
        return self.endpoint.rstrip("/")


class _Wrong(Exception):
    """What the probe came to, where it did not come to an answer."""

    def __init__(self, code: str, says: str, fix: str) -> None:
        super().__init__(says)
        self.proof = error("advice", code, says, fix)


async def probe(asked: Asked) -> Proof:
    """One question with a constrained answer. Ends within `timeout_s`, whatever the server does."""
    import httpx2

    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        async with asyncio.timeout(asked.timeout_s), httpx2.AsyncClient(follow_redirects=False, timeout=None) as client:
            return await _probe(client, asked)
    except _Wrong as wrong:
        return wrong.proof
    except TimeoutError:
        says = f"{asked.base} has not answered within {asked.timeout_s:g} s"
        return error("advice", "hangs", says, "see what its server does; `rl.advice.timeout_s` is how long it may take")
    except httpx2.ConnectError as fault:
        says = f"{asked.base} cannot be reached: {_short(str(fault))}"
        fix = "see that the name, the port and what stands in between (NetworkPolicy, proxy) let it through"
        return error("advice", "refused", says, fix)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as fault:
        says = f"{asked.base} broke off: {type(fault).__name__}: {_short(_hidden(str(fault), asked))}"
        return error("advice", "broken", says, "see what its server says, and that it speaks HTTP at that port")


async def _probe(client: httpx2.AsyncClient, asked: Asked) -> Proof:
    model = await _model(client, asked)
    began = time.monotonic()
    answer = await _asked_once(client, asked, model)
    took_s = time.monotonic() - began
    says = f"{model or 'the model'} answered {answer!r} within {took_s:.2f} s, as the schema has it"
    if asked.planned_s is not None and took_s > SLOW_TIMES * asked.planned_s:
        fix = "plan with what it takes: `rl.advice.latency_s`"
        return Proof("advice", "advice-slow", "note", f"{says}; planned are {asked.planned_s:g} s", fix)
    return ok("advice", says)


async def _model(client: httpx2.AsyncClient, asked: Asked) -> str | None:
    """The model to ask for; `None`: the server does not tell what it has, and none is named."""
    status, body = await _sent(client, asked, "GET", "/models", None)
    if status in MODELS_MISSING:
        return asked.model
    _judge(asked, status, body, "/models")
    try:
        known = [str(each["id"]) for each in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        says = f"{asked.base}/models answers what is no list of models: {_short(body)}"
        raise _Wrong("garbage", says, "see that a server of OpenAI's protocol is there") from None
    if asked.model is not None and asked.model not in known:
        says = f"there is no model {asked.model!r}; there are: {', '.join(known[:10]) or 'none'}"
        raise _Wrong("model", _short(says), "name one of them in `rl.advice.model`")
    if asked.model is None and len(known) != 1:
        says = f"it has {len(known)} models: {', '.join(known[:10]) or 'none'}"
        raise _Wrong("model", _short(says), "name the one that is meant in `rl.advice.model`")
    return asked.model or known[0]


async def _asked_once(client: httpx2.AsyncClient, asked: Asked, model: str | None) -> str:
    """The action that was answered. Raises `_Wrong`."""
    question = {
        **({} if model is None else {"model": model}),
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "advice", "strict": True, "schema": SCHEMA}},
    }
    status, body = await _sent(client, asked, "POST", "/chat/completions", question)
    _judge(asked, status, body, "/chat/completions")
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
        assert isinstance(content, str)
    except (ValueError, KeyError, IndexError, TypeError, AssertionError):
        says = f"{asked.base}/chat/completions answers what is no completion: {_short(body)}"
        raise _Wrong("garbage", says, "see that a server of OpenAI's protocol is there") from None
    return _action(content)


def _action(content: str) -> str:
    heed = "have it heed `response_format` with a JSON schema: a server of llama.cpp, vLLM or SGLang does"
    try:
        found = json.loads(content)
    except ValueError:
        raise _Wrong("free", f"it was to answer by a schema, and said {_short(content)!r}", heed) from None
    if not isinstance(found, dict) or found.keys() != {"action"} or found["action"] not in BUTTONS:
        raise _Wrong("schema", f"its JSON is not of the schema that was asked for: {_short(content)}", heed)
    return str(found["action"])


async def _sent(
    client: httpx2.AsyncClient, asked: Asked, method: str, path: str, body: Mapping[str, Any] | None
) -> tuple[int, str]:
    """Status and text; of a body without end, its beginning."""
    headers = {} if asked.key is None else {"Authorization": f"Bearer {asked.key}"}
    request = client.build_request(method, asked.base + path, json=body, headers=headers)
    response = await client.send(request, stream=True)
    found = bytearray()
    try:
        async for piece in response.aiter_bytes():
            found += piece
            if len(found) > ANSWER_MAX:
                break
    finally:
        await response.aclose()
    return response.status_code, _hidden(found[:ANSWER_MAX].decode("utf-8", errors="replace"), asked)


def _judge(asked: Asked, status: int, body: str, path: str) -> None:
    """Raise `_Wrong` for anything but an answer."""
    if status == 200:
        return
    place, said = asked.base + path, f": {_short(body)}" if body.strip() else ""
    if status in KEYLESS:
        given = "the key it was shown" if asked.key is not None else "whoever shows no key"
        says, fix = f"{place} refuses {given} ({status}){said}", "give its key by `rl.advice.key_env` or `key_file`"
        raise _Wrong("key", says, fix)
    if status in NOWHERE:
        says = f"{place} is not there ({status}){said}"
        end = "" if asked.base.endswith("/v1") else ", and for most servers ends with /v1"
        raise _Wrong("path", says, f"`rl.advice.endpoint` is what comes before /chat/completions{end}")
    if status == BUSY:
        says = f"{place} has more to do than it can, or lets nobody ask so often ({status}){said}"
        raise _Wrong("busy", says, "lower `rl.advice.calls_per_s` of whoever asks it now, or serve more")
    if 300 <= status < 400:
        raise _Wrong(
            "elsewhere", f"{place} sends elsewhere ({status})", "name the last address in `rl.advice.endpoint`"
        )
    if status >= 500:
        raise _Wrong("failing", f"{place} fails ({status}){said}", "see its server's log; it may be starting still")
    fix = "see what it does not take: an answer by `response_format` with a JSON schema is needed"
    raise _Wrong("rejected", f"{place} rejects the question ({status}){said}", fix)


def _hidden(text: str, asked: Asked) -> str:
    """Without the key, which a server may well repeat."""
    return text if not asked.key else text.replace(asked.key, "…")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SAID_MAX else f"{words[: SAID_MAX - 1]}…"
