// Curves of a training config, drawn by uPlot from the API's own series.
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

  const KINDS = { rating, loss, games };

  function axis(more) {
    return { stroke: colour("--muted"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") }, ...more };
  }

  function draw(place, history) {
    const made = KINDS[place.dataset.plot](history);
    drawn.get(place)?.destroy();
    drawn.delete(place);
    place.textContent = made.data[0].length ? "" : "Nothing is known yet.";
    if (!made.data[0].length) return;
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      series: [{ label: "at (UTC)", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...made.series],
      bands: made.bands ?? [],
      axes: [axis({ values: TICKS }), axis({ size: 56 })],
      legend: { live: true },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    };
    const plot = new uPlot(options, made.data, place);
    const [first] = made.data[0];
    // Around a single point uPlot would show some years.
    if (made.data[0].length === 1) plot.setScale("x", { min: first - SHORTEST_S / 2, max: first + SHORTEST_S / 2 });
    drawn.set(place, plot);
  }

  async function refresh() {
    const answer = await fetch(box.dataset.history);
    if (!answer.ok) return;
    const history = await answer.json();
    for (const place of box.querySelectorAll("[data-plot]")) draw(place, history);
  }

  function look() {
    const newest = document.getElementById("curves")?.dataset.mark;
    if (newest !== mark) {
      mark = newest;
      refresh();
    }
  }

  new ResizeObserver(() => {
    for (const [place, plot] of drawn) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(box);
  document.addEventListener("hostler:parts", look);
  document.addEventListener("hostler:theme", refresh);
  look();
})();
