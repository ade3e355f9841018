// Keeps a page up to date: one event stream tells which parts are stale, htmx fetches those. Sends forms to the API.
"use strict";

(() => {
  const REST_MS = 250; // a part is fetched at most so often
  const AT_ONCE = 40; // parts in one request
  const SILENCE_MS = 12000; // the stream says something every 5 s; after this much silence it is dead
  const AGAIN_MS = [300, 1000, 2000, 4000, 5000];

  const live = document.getElementById("live");
  const banner = document.getElementById("lost");
  const line = document.getElementById("line");
  const said = document.getElementById("said");
  let ahead = live ? Number(live.dataset.now) - Date.now() / 1000 : 0; // the controller's clock against ours

  // --- time ---------------------------------------------------------------------------------------------------------

  const now = () => Date.now() / 1000 + ahead;

  function span(seconds) {
    const whole = Math.max(Math.floor(seconds), 0);
    const two = (value) => String(value).padStart(2, "0");
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
    return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
  }

  function words(how, at) {
    if (how === "until") return at <= now() ? "now" : `in ${span(at - now())}`;
    return span(now() - at) + (how === "ago" ? " ago" : "");
  }

  function tick() {
    for (const each of document.querySelectorAll("time[data-how]")) {
      if (!isSeen(each)) continue;
      const text = words(each.dataset.how, Date.parse(each.dateTime) / 1000);
      if (each.textContent !== text) each.textContent = text;
    }
    if (lostAt !== null) tellLost();
  }

  // Exactly when, for whoever points at it: thousands of these would be a large part of the page.
  function tellWhen(event) {
    const time = event.target.closest?.("time");
    if (time && !time.title) time.title = `${time.dateTime.slice(0, 19).replace("T", " ")} UTC`;
  }

  // --- what is seen -------------------------------------------------------------------------------------------------

  const seen = new WeakMap();
  const eye = new IntersectionObserver(
    (changes) => {
      for (const change of changes) seen.set(change.target, change.isIntersecting);
      if (changes.some((change) => change.isIntersecting)) fetchSoon();
    },
    { rootMargin: "300px" },
  );

  // An empty part has no place on the page in which it could be seen: it is fetched as soon as there is something in it.
  function isSeen(element) {
    const part = element.closest(".part");
    return part === null || part.childElementCount === 0 || seen.get(part) !== false;
  }

  // --- the stream ---------------------------------------------------------------------------------------------------

  let source = null;
  let heardAt = Date.now();
  let lostAt = null;
  let failures = 0;
  let waiting = null;

  function question(path, more = []) {
    const query = new URLSearchParams(live.dataset.query);
    query.set("page", live.dataset.page);
    if (live.dataset.name !== undefined) query.set("name", live.dataset.name);
    for (const id of more) query.append("id", id);
    return `${path}?${query}`;
  }

  function connect() {
    clearTimeout(waiting);
    waiting = null;
    source = new EventSource(question("/pages/stream"));
    source.addEventListener("marks", (event) => hear(event, take));
    source.addEventListener("beat", (event) => hear(event, () => {}));
    source.addEventListener("gone", (event) => hear(event, vanish));
    source.addEventListener("error", lose);
  }

  function hear(event, then) {
    const message = JSON.parse(event.data);
    heardAt = Date.now();
    failures = 0;
    if (message.at !== undefined) ahead = message.at - Date.now() / 1000;
    if (lostAt !== null) {
      lostAt = null;
      banner.hidden = true;
    }
    showLine("up", "live");
    if (message.at !== undefined) showAsOf(message.at);
    then(message);
  }

  function showAsOf(at) {
    document.getElementById("asof").textContent = `${new Date(at * 1000).toISOString().slice(11, 19)} UTC`;
  }

  function lose() {
    source.close();
    if (lostAt === null) lostAt = heardAt;
    tellLost();
    const rest = AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)];
    failures += 1;
    waiting ??= setTimeout(retry, rest);
  }

  async function retry() {
    waiting = null;
    try {
      const answer = await fetch(question("/pages/parts"), { headers: { "HX-Request": "true" } });
      if (answer.status === 401) {
        location.href = `/login?next=${encodeURIComponent(location.pathname)}`;
        return;
      }
    } catch {
      lose();
      return;
    }
    connect();
  }

  function tellLost() {
    showLine("down", "connection lost");
    banner.hidden = false;
    banner.textContent =
      `The controller has not been heard for ${span((Date.now() - lostAt) / 1000)}. ` +
      "What you see is from then; trying again.";
  }

  function vanish(message) {
    source.close();
    showLine("down", "not live");
    banner.hidden = false;
    banner.textContent = message.why;
  }

  function showLine(state, text) {
    if (line.dataset.state === state) return;
    line.dataset.state = state;
    line.querySelector(".words").textContent = text;
  }

  // --- stale parts --------------------------------------------------------------------------------------------------

  const marks = new Map();
  const fetchedAt = new Map();
  let fetching = false;
  let again = null;

  function take(message) {
    if (message.whole) marks.clear();
    for (const [id, mark] of Object.entries(message.marks)) marks.set(id, mark);
    for (const id of message.gone) marks.delete(id);
    const strangers = [...marks.keys()].some((id) => document.getElementById(id) === null);
    const gone = [...document.querySelectorAll(".part")].some((part) => !marks.has(part.id));
    if (strangers || gone) reload();
    else fetchSoon();
  }

  function stale() {
    const found = [];
    for (const [id, mark] of marks) {
      const part = document.getElementById(id);
      if (part !== null && part.dataset.mark !== mark && isSeen(part)) found.push(id);
    }
    return found;
  }

  function fetchSoon() {
    if (fetching || again !== null || !window.htmx) return;
    const ids = stale();
    if (!ids.length) return;
    const ready = ids.filter((id) => Date.now() - (fetchedAt.get(id) ?? 0) >= REST_MS).slice(0, AT_ONCE);
    if (ready.length) fetchParts(ready);
    else {
      const first = Math.min(...ids.map((id) => fetchedAt.get(id)));
      again = setTimeout(() => {
        again = null;
        fetchSoon();
      }, Math.max(first + REST_MS - Date.now(), 20));
    }
  }

  async function fetchParts(ids) {
    fetching = true;
    performance.mark("hostler:stale");
    for (const id of ids) fetchedAt.set(id, Date.now());
    try {
      await htmx.ajax("GET", question("/pages/parts", ids), { source: live, target: live, swap: "none" });
      watchParts();
      performance.measure("hostler:update", { start: "hostler:stale", detail: ids.length });
    } finally {
      fetching = false;
    }
    fetchSoon();
  }

  // Another set of parts: the whole of the page is fetched and merged.
  async function reload() {
    if (fetching || !window.htmx) return;
    fetching = true;
    try {
      await htmx.ajax("GET", location.href, { source: live, target: "#main", select: "#main", swap: "outerMorph" });
      watchParts();
    } finally {
      fetching = false;
    }
    setTimeout(() => take({ marks: {}, gone: [] }), REST_MS);
  }

  function watchParts() {
    for (const part of document.querySelectorAll(".part")) {
      if (!seen.has(part)) {
        seen.set(part, part.dataset.mark !== "");
        eye.observe(part);
      }
    }
    document.dispatchEvent(new CustomEvent("hostler:parts"));
  }

  // --- something else of the same page ------------------------------------------------------------------------------

  // A link to the page at hand with another question: it is asked without loading anything anew.
  function stay(event) {
    const link = event.target.closest("a[data-stay]");
    if (link === null || source === null || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    live.dataset.query = new URL(link.href).search.slice(1);
    history.replaceState(null, "", link.href);
    source.close();
    connect();
  }

  // Keys that stand on an element click it, unless they mean something where one is.
  function pressed(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, dialog, .scroll, .log, .u-over")) return;
    const keyed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (keyed === null) return;
    event.preventDefault();
    keyed.click();
  }

  // --- writing ------------------------------------------------------------------------------------------------------

  async function send(path, body, method = "POST") {
    const headers = { "X-CSRF-Token": live.dataset.csrf, "Idempotency-Key": crypto.randomUUID() };
    if (body !== null) headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { method, headers, body: body === null ? null : JSON.stringify(body) });
    const text = await answer.text();
    if (answer.redirected || answer.ok) return text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : null;
    throw new Error(problem(answer.status, text));
  }

  function problem(status, text) {
    try {
      return JSON.parse(text).message;
    } catch {
      return `the controller answered with status ${status}`;
    }
  }

  const isNumber = (field) => field.type === "number" || field.dataset.number !== undefined;
  const typed = (field) => (isNumber(field) ? Number(field.value) : field.value);

  function fields(form, only) {
    const body = {};
    for (const field of form.elements) {
      if (!field.name || (field.value === "" && (field.dataset.optional !== undefined || !field.required))) continue;
      if (only === undefined || only.split(" ").includes(field.name)) body[field.name] = typed(field);
    }
    return body;
  }

  function script(values) {
    const { argv, ...rest } = values;
    const words = argv.split("\n").map((word) => word.replace(/\r$/, ""));
    while (words.length && words[words.length - 1] === "") words.pop();
    return [{ ...rest, payload: { kind: "script", schema: 1, argv: words } }];
  }

  function say(text, kind) {
    said.textContent = text;
    said.dataset.kind = kind;
  }

  async function submitted(event) {
    const form = event.target.closest("form[data-api]");
    if (form === null) return;
    event.preventDefault();
    const button = event.submitter;
    if (button?.dataset.confirm && !window.confirm(button.dataset.confirm)) return;
    const values = fields(form, button?.dataset.only);
    if (button?.dataset.set) values[button.dataset.set] = true;
    const body = form.dataset.shape === "script" ? script(values) : values;
    await act(button, button?.dataset.api ?? form.dataset.api, Object.keys(body).length ? body : null, (answer) => {
      form.closest("dialog")?.close();
      if (form.dataset.then && answer?.ids) location.href = form.dataset.then + encodeURIComponent(answer.ids[0]);
      return `${button?.textContent.trim() ?? "It"}: accepted.`;
    });
  }

  async function act(button, path, body, then) {
    if (button) button.disabled = true;
    try {
      say(then(await send(path, body, button?.dataset.method)) ?? "", "good");
    } catch (error) {
      button?.closest("dialog")?.close();
      say(error.message, "bad");
    } finally {
      if (button) button.disabled = false;
    }
  }

  function clicked(event) {
    const button = event.target.closest("button");
    if (button?.dataset.post) post(button);
    else if (button?.dataset.dialog) open(button);
    else if (button?.dataset.close !== undefined) button?.closest("dialog").close();
  }

  function post(button) {
    act(button, button.dataset.post, null, () => {
      if (button.dataset.then) location.href = button.dataset.then;
      return button.dataset.said ?? `${button.textContent.trim()}: accepted.`;
    });
  }

  // A form that is asked for: what it is about stands on the button that opens it.
  function open(button) {
    const dialog = document.getElementById(button.dataset.dialog);
    const form = dialog.querySelector("form");
    form.reset();
    if (button.dataset.api) form.dataset.api = button.dataset.api;
    for (const [name, value] of Object.entries(JSON.parse(button.dataset.values ?? "{}"))) form.elements[name].value = value;
    const about = dialog.querySelector("[data-about]");
    if (about !== null) about.textContent = button.dataset.about ?? "";
    dialog.showModal();
  }

  // --- the log of an attempt ----------------------------------------------------------------------------------------

  const LOG_SHOWN = 200000;
  const log = document.getElementById("log");
  const log_state = { attempt: null, stream: "out", offset: null, over: false, busy: false };

  function attempts() {
    const choice = document.getElementById("log-attempt");
    const known = new Set([...choice.options].map((each) => each.value));
    const rows = [...document.querySelectorAll("#tries tr[data-attempt]")];
    const latest = choice.selectedIndex <= 0;
    for (const row of rows.reverse()) {
      if (!known.has(row.dataset.attempt)) choice.prepend(new Option(row.dataset.attempt, row.dataset.attempt));
    }
    if (latest && choice.options.length) choice.selectedIndex = 0;
  }

  async function readLog() {
    if (log_state.busy || document.hidden) return;
    attempts();
    const attempt = document.getElementById("log-attempt").value;
    const stream = document.getElementById("log-stream").value;
    if (!attempt) return showLog("No attempt has begun yet.");
    if (attempt !== log_state.attempt || stream !== log_state.stream) {
      Object.assign(log_state, { attempt, stream, offset: null, over: false });
      log.textContent = "";
    }
    if (log_state.over) return;
    log_state.busy = true;
    try {
      await readPiece(attempt, stream);
    } catch (error) {
      showLog(error.message);
    } finally {
      log_state.busy = false;
    }
  }

  async function readPiece(attempt, stream) {
    const offset = log_state.offset ?? -65536;
    const path = `/api/v1/attempts/${encodeURIComponent(attempt)}/log?stream=${stream}&offset=${offset}`;
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(problem(answer.status, await answer.text()));
    const bytes = await answer.arrayBuffer();
    const size = Number(answer.headers.get("Hostler-Log-Size"));
    log_state.offset = Number(answer.headers.get("Hostler-Log-Offset")) + bytes.byteLength;
    log_state.over = answer.headers.get("Hostler-Log-Ended") === "true" && log_state.offset >= size;
    if (bytes.byteLength) {
      const whole = log.textContent + new TextDecoder().decode(bytes);
      log.textContent = whole.slice(-LOG_SHOWN);
      if (document.getElementById("log-follow").checked) log.scrollTop = log.scrollHeight;
    }
    showLog(`${size} bytes${log_state.over ? ", ended" : ""}`);
  }

  function showLog(text) {
    const place = document.getElementById("log-state");
    if (place.textContent !== text) place.textContent = text;
  }

  // --- theme --------------------------------------------------------------------------------------------------------

  const THEMES = ["auto", "light", "dark"];
  const toggle = document.getElementById("theme");

  function showTheme() {
    toggle.textContent = `Theme: ${document.documentElement.dataset.theme ?? "auto"}`;
  }

  function turnTheme() {
    const current = document.documentElement.dataset.theme ?? "auto";
    const next = THEMES[(THEMES.indexOf(current) + 1) % THEMES.length];
    if (next === "auto") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("theme");
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem("theme", next);
    }
    showTheme();
    document.dispatchEvent(new CustomEvent("hostler:theme"));
  }

  // --- begin --------------------------------------------------------------------------------------------------------

  function find(event) {
    if (event.target.id !== "find") return;
    event.preventDefault();
    location.href = `/pages/jobs/${encodeURIComponent(event.target.elements.find.value)}`;
  }

  toggle.addEventListener("click", turnTheme);
  showTheme();
  document.addEventListener("submit", submitted);
  document.addEventListener("submit", find);
  document.addEventListener("click", clicked);
  document.addEventListener("click", stay);
  document.addEventListener("keydown", pressed);
  document.addEventListener("pointerover", tellWhen);
  if (live.dataset.page && window.htmx) {
    watchParts();
    connect();
    setInterval(() => {
      if (waiting === null && source.readyState !== EventSource.CLOSED && Date.now() - heardAt > SILENCE_MS) lose();
    }, 1000);
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => event.persisted && connect());
  }
  setInterval(tick, 1000);
  if (log !== null) {
    readLog();
    setInterval(readLog, 1000);
    for (const id of ["log-attempt", "log-stream"]) document.getElementById(id).addEventListener("change", readLog);
  }
})();
