// Curves of a training config, and of a job that learns by reinforcement; drawn by uPlot from the API's own series.
"use strict";

(() => {
  const box = document.querySelector("[data-history]");
  if (box === null) return;
  const HEIGHT = 220;
  const SHORTEST_S = 3600; // a curve of one point has a width, too
  // How ticks are written: from so many seconds between them on, as a rule, and where a year or a day begins.
  const DAY = "\n{D} {MMM}";
  const TICKS = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", `${DAY} {YYYY}`, null, DAY, null, null, null, 1],
    [1, ":{ss}", `${DAY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
  ];
  const drawn = new Map();
  let mark = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function rating(history) {
    const points = history.ratings;
    return {
      data: [
        points.map((each) => each.at),
        points.map((each) => each.rating.high),
        points.map((each) => each.rating.low),
        points.map((each) => each.rating.elo),
      ],
      series: [
        { label: "95 % up to", stroke: colour("--faint"), points: { show: false } },
        { label: "from", stroke: colour("--faint"), points: { show: false } },
        { label: "Elo", stroke: colour("--accent"), width: 2, points: { show: true, size: 5 } },
      ],
      bands: [{ series: [1, 2], fill: colour("--band") }],
    };
  }

  function loss(history) {
    const models = history.models.filter((each) => each.after !== null);
    return {
      data: [
        models.map((each) => each.made_at),
        models.map((each) => each.after.policy),
        models.map((each) => each.after.value),
      ],
      series: [
        { label: "policy, nats", stroke: colour("--accent"), width: 2, points: { show: true, size: 5 } },
        { label: "value, nats", stroke: colour("--good"), width: 2, points: { show: true, size: 5 } },
      ],
    };
  }

  function games(history) {
    return {
      data: [history.hours.map((each) => each.at), history.hours.map((each) => each.games)],
      series: [
        { label: "games", stroke: colour("--accent"), fill: colour("--band"), paths: uPlot.paths.stepped({ align: 1 }), points: { show: true, size: 4 } },
      ],
    };
  }

  // What a training told, over the steps it had made.
  function told(points, label, name, look) {
    const known = points.filter((each) => each[name] !== null);
    return {
      data: [known.map((each) => each.steps), known.map((each) => each[name])],
      series: [{ label, stroke: colour(look), width: 2, points: { show: known.length < 2, size: 5 } }],
      bySteps: true,
    };
  }

  const rate = (points) => told(points, "steps/s", "per_s", "--accent");
  const reward = (points) => told(points, "reward", "reward", "--good");
  const places = (points) => told(points, "places", "places", "--accent");

  const KINDS = { rating, loss, games, rate, reward, places };

  function short(value) {
    if (value >= 1e6) return `${Number((value / 1e6).toPrecision(4))} M`;
    return value >= 1e4 ? `${Number((value / 1e3).toPrecision(4))} k` : `${value}`;
  }

  // The axis from left to right: time, or steps.
  function along(made) {
    if (made.bySteps) {
      return {
        series: { label: "step", value: (plot, value) => (value === null ? "–" : value.toLocaleString("en")) },
        axis: axis({ values: (plot, values) => values.map(short), space: 70 }),
        options: { scales: { x: { time: false } } },
      };
    }
    return {
      series: { label: "at (UTC)", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      axis: axis({ values: TICKS }),
      options: { tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC") },
    };
  }

  function axis(more) {
    return { stroke: colour("--muted"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") }, ...more };
  }

  function draw(place, history, anew) {
    const made = KINDS[place.dataset.plot](history);
    if (!anew && made.bySteps && made.data[0].length > 1 && drawn.has(place)) {
      drawn.get(place).setData(made.data); // whoever points at it goes on pointing
      return;
    }
    drawn.get(place)?.destroy();
    drawn.delete(place);
    place.textContent = made.data[0].length ? "" : "Nothing is known yet.";
    if (!made.data[0].length) return;
    const x = along(made);
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      series: [x.series, ...made.series],
      bands: made.bands ?? [],
      axes: [x.axis, axis({ size: 56 })],
      legend: { live: true },
      ...x.options,
    };
    const plot = new uPlot(options, made.data, place);
    const [first] = made.data[0];
    // Around a single point uPlot would show some years.
    if (made.data[0].length === 1 && !made.bySteps) plot.setScale("x", { min: first - SHORTEST_S / 2, max: first + SHORTEST_S / 2 });
    drawn.set(place, plot);
  }

  async function refresh(anew) {
    const answer = await fetch(box.dataset.history);
    if (!answer.ok) return;
    const history = await answer.json();
    for (const place of box.querySelectorAll("[data-plot]")) draw(place, history, anew);
  }

  function look() {
    const newest = document.getElementById("curves")?.dataset.mark;
    if (newest !== mark) {
      mark = newest;
      refresh(false);
    }
  }

  new ResizeObserver(() => {
    for (const [place, plot] of drawn) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(box);
  document.addEventListener("hostler:parts", look);
  document.addEventListener("hostler:theme", () => refresh(true));
  look();
})();
