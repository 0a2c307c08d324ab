// Charts as SVG, drawn by hand: lines over time and bars by agent. A chart library would weigh more than a megabyte and
// write styles into the document, which the page's policy forbids.

import { drawn, element, replace, shown } from "./dom.js";

const HEIGHT = 260;
const MARGIN = { left: 52, right: 14, top: 30, bottom: 40 };
const COLOURS = 8;
const MOST_ROWS = 40;
const MOST_KEYS = 9;

/** A chart in a card of its own, that can be given new data and a playhead. */
export class ChartCard {
  constructor(chart, colours = null) {
    this.colours = colours; // by label, where several charts show the same things
    this.log = false;
    this.playhead = null;
    this.cross = null;
    this.svg = drawn("svg", { class: "plot", role: "img", tabindex: 0, keydown: (event) => this.key(event) });
    this.keys = element("ul", { class: "keys" });
    this.reading = element("output", { class: "reading" });
    this.note = element("p", { class: "note" });
    this.heading = element("h3", {});
    this.toggle = element("button", { type: "button", "aria-pressed": "false", click: () => this.flip() }, "Log scale");
    this.values = element("details", { toggle: () => this.tabulate() }, element("summary", {}, "Values"));
    this.node = element("article", { class: "card chart" },
      element("div", { class: "card-head" }, this.heading, this.toggle), this.keys, this.svg, this.reading, this.note, this.values);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => { this.cross = null; this.draw(); });
    this.show(chart);
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(chart) {
    this.chart = chart;
    this.node.dataset.chart = chart.name;
    this.heading.textContent = chart.title;
    this.note.textContent = chart.note;
    this.toggle.hidden = chart.kind === "bars";
    const key = (one, place) => element("li", {}, swatch(chart.kind, this.colour(place), one.dashed), one.label);
    replace(this.keys, ...(chart.series.length > 1 || this.colours ? chart.series.slice(0, MOST_KEYS).map(key) : []));
    this.svg.setAttribute("aria-label", described(chart));
    this.tabulate();
    this.draw();
  }

  colour(place) {
    const known = this.colours?.get(this.chart.series[place].label);
    return known ?? place;
  }

  flip() {
    this.log = !this.log;
    this.toggle.setAttribute("aria-pressed", String(this.log));
    this.draw();
  }

  moveTo(round) {
    if (this.chart.kind === "bars" || this.playhead === round) return;
    this.playhead = round;
    this.drawPlayhead();
  }

  draw() {
    const width = Math.max(220, this.svg.clientWidth || 460);
    const scale = scaleOf(this.chart, width, this.log);
    this.scale = scale;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.head = drawn("g", {});
    replace(this.svg, ...axes(this.chart, scale, width),
      ...(this.chart.kind === "bars" ? bars(this.chart, scale) : lines(this.chart, scale, (place) => this.colour(place))),
      ...marks(this.chart, scale), this.head, ...this.crosshair());
    this.drawPlayhead();
  }

  drawPlayhead() {
    const at = this.playhead;
    const inside = at !== null && at >= this.scale.x0 && at <= this.scale.x1;
    replace(this.head, inside && drawn("line", { class: "playhead", x1: this.scale.x(at), x2: this.scale.x(at), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    this.cross = this.scale.back(event.clientX - box.left);
    this.draw();
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10 };
    const { x0, x1 } = this.scale;
    if (steps[event.key]) this.cross = Math.min(x1, Math.max(x0, (this.cross ?? x0) + (steps[event.key] * (x1 - x0)) / 50));
    else if (event.key === "Home") this.cross = x0;
    else if (event.key === "End") this.cross = x1;
    else if (event.key === "Escape") this.cross = null;
    else return;
    event.preventDefault();
    this.draw();
  }

  crosshair() {
    if (this.cross === null) { this.reading.textContent = ""; return []; }
    const near = this.chart.series.map((one) => nearest(one, this.cross));
    const place = near.find((point) => point !== null);
    if (!place) return [];
    const said = this.chart.series.map((one, number) => (near[number] ? `${one.label} ${shown(near[number][1])}` : null)).filter(Boolean);
    const span = (this.scale.x1 - this.scale.x0) / 60;
    const faults = this.chart.marks.filter((mark) => Math.abs(mark.at - place[0]) <= span).map((mark) => mark.text);
    this.reading.textContent = `${this.chart.x_label} ${shown(place[0])}: ${[...said.slice(0, MOST_KEYS), ...faults.slice(0, 3)].join(", ")}`;
    const x = this.scale.x(place[0]);
    const dots = this.chart.kind === "bars" ? [] : near.map((point, number) => point && Number.isFinite(this.scale.y(point[1])) &&
      drawn("circle", { class: `dot f${this.colour(number) % COLOURS}`, cx: x, cy: this.scale.y(point[1]), r: 4 })).filter(Boolean);
    return [drawn("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }), ...dots];
  }

  tabulate() {
    if (!this.values.open) return;
    const places = [...new Set(this.chart.series.flatMap((one) => one.x))].sort((a, b) => a - b);
    const every = Math.max(1, Math.ceil(places.length / MOST_ROWS));
    const chosen = places.filter((_, number) => number % every === 0 || number === places.length - 1);
    const head = element("tr", {}, ...[this.chart.x_label, ...this.chart.series.map((one) => one.label)].map((name) => element("th", { scope: "col" }, name)));
    const rows = chosen.map((at) => element("tr", {}, element("th", { scope: "row" }, shown(at)),
      ...this.chart.series.map((one) => element("td", {}, shown(nearest(one, at)?.[1] ?? null)))));
    replace(this.values, element("summary", {}, "Values"),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Values of ${this.chart.title}` }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
  }
}

/** Cards for these charts in a container: those that are there already are kept and given the new data. */
export function showCharts(container, cards, charts, colours = null) {
  for (const chart of charts) {
    if (cards.has(chart.name)) cards.get(chart.name).show(chart);
    else {
      const card = new ChartCard(chart, colours);
      cards.set(chart.name, card);
      container.append(card.node);
    }
  }
  for (const [name, card] of cards) {
    if (!charts.some((chart) => chart.name === name)) { card.node.remove(); cards.delete(name); }
  }
}

export function swatch(kind, place, dashed) {
  return drawn("svg", { width: 18, height: 12, "aria-hidden": "true" }, kind === "bars"
    ? drawn("rect", { class: `f${place % COLOURS}`, width: 12, height: 12, x: 3, rx: 2 })
    : drawn("line", { class: `s${place % COLOURS}${dashed ? " dashed-key" : ""}`, x1: 0, x2: 18, y1: 6, y2: 6, "stroke-width": 3, "stroke-dasharray": dashed ? "4 3" : null }));
}

function described(chart) {
  const said = chart.series.slice(0, MOST_KEYS).map((one) => {
    const known = one.y.filter((value) => value !== null);
    return known.length ? `${one.label} ends at ${shown(known[known.length - 1])}` : `${one.label} has no values`;
  });
  const what = chart.kind === "bars" ? `${chart.title} by ${chart.x_label}` : `${chart.title} over ${chart.x_label}: ${said.join("; ")}`;
  return `${what}. ${chart.marks.length ? `${chart.marks.length} faults are marked. ` : ""}Arrow keys read values.`;
}

function scaleOf(chart, width, log) {
  const stacked = chart.kind === "bars" ? heights(chart) : null;
  const xs = chart.series.flatMap((one) => [one.x[0], one.x[one.x.length - 1]]).filter((x) => x !== undefined);
  const ys = stacked ? [...stacked.values()] : chart.series.flatMap((one) => one.y.filter((y) => y !== null));
  let [x0, x1] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1];
  if (stacked) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  if (x1 <= x0) x1 = x0 + 1;
  const top = ys.reduce((a, b) => Math.max(a, b), 0) || 1;
  const low = log ? Math.max(1e-6, ys.filter((y) => y > 0).reduce((a, b) => Math.min(a, b), top)) : Math.min(0, ys.reduce((a, b) => Math.min(a, b), 0));
  const [across, high] = [width - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  const ticks = log ? decades(low, top) : niceTicks(low, top, 5);
  const roof = log ? top : Math.max(top, ticks[ticks.length - 1]);
  const part = log ? (y) => (y > 0 ? Math.log(y / low) / Math.max(1e-9, Math.log(roof / low)) : NaN) : (y) => (y - low) / (roof - low);
  return {
    x0, x1, ticks, log,
    x: (x) => MARGIN.left + (across * (x - x0)) / (x1 - x0),
    y: (y) => MARGIN.top + high * (1 - part(y)),
    back: (pixel) => Math.min(x1, Math.max(x0, x0 + ((pixel - MARGIN.left) / across) * (x1 - x0))),
  };
}

function axes(chart, scale, width) {
  const bottom = HEIGHT - MARGIN.bottom;
  const parts = scale.ticks.filter((tick) => Number.isFinite(scale.y(tick))).map((tick) => drawn("g", {},
    drawn("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: scale.y(tick), y2: scale.y(tick) }),
    drawn("text", { x: MARGIN.left - 8, y: scale.y(tick) + 4, "text-anchor": "end" }, shown(tick))));
  const across = niceTicks(Math.ceil(scale.x0), Math.floor(scale.x1), width < 400 ? 4 : 6, true) // there is no agent and no round 2.5
    .filter((tick) => tick >= scale.x0 && tick <= scale.x1);
  for (const tick of across) parts.push(drawn("text", { x: scale.x(tick), y: bottom + 17, "text-anchor": "middle" }, shown(tick)));
  parts.push(drawn("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
  parts.push(drawn("text", { x: width - MARGIN.right, y: HEIGHT - 5, "text-anchor": "end" }, chart.x_label));
  parts.push(drawn("text", { x: 4, y: 12, "text-anchor": "start" }, `↑ ${chart.y_label}`));
  return parts;
}

function lines(chart, scale, colour) {
  return chart.series.map((one, place) => {
    let [path, pen] = ["", "M"];
    one.x.forEach((x, number) => {
      const y = one.y[number] === null ? NaN : scale.y(one.y[number]);
      if (!Number.isFinite(y)) { pen = "M"; return; }
      path += `${pen}${scale.x(x).toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    });
    return drawn("path", { class: `line s${colour(place) % COLOURS}${one.dashed ? " dashed" : ""}${place ? " thin" : ""}`, d: path });
  }).reverse(); // the first is what the chart is about: it lies on top
}

function heights(chart) {
  const total = new Map();
  for (const one of chart.series) one.x.forEach((x, number) => total.set(x, (total.get(x) ?? 0) + (one.y[number] ?? 0)));
  return total;
}

function bars(chart, scale) {
  const wide = Math.max(1, Math.min(46, (scale.x(scale.x0 + 1) - scale.x(scale.x0)) * 0.78));
  const below = new Map();
  return chart.series.map((one, place) => drawn("g", { class: `f${place % COLOURS}` }, ...one.x.map((x, number) => {
    const [from, height] = [below.get(x) ?? 0, one.y[number] ?? 0];
    below.set(x, from + height);
    const [top, foot] = [scale.y(from + height), scale.y(from)];
    return drawn("rect", { x: scale.x(x) - wide / 2, width: wide, y: top, height: Math.max(0, foot - top), rx: wide > 6 ? 2 : 0 });
  })));
}

function marks(chart, scale) {
  return chart.marks.filter((mark) => mark.at >= scale.x0 && mark.at <= scale.x1).map((mark) => drawn("g", {},
    drawn("title", {}, `${chart.x_label} ${shown(mark.at)}: ${mark.text}`),
    drawn("line", { class: "mark", x1: scale.x(mark.at), x2: scale.x(mark.at), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
    drawn("path", { class: "mark-head", d: `M${scale.x(mark.at) - 5} ${MARGIN.top - 10}h10l-5 9z` })));
}

function nearest(one, at) {
  let [low, high] = [0, one.x.length - 1];
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (one.x[middle] < at) low = middle + 1; else high = middle;
  }
  if (low > 0 && at - one.x[low - 1] < one.x[low] - at) low -= 1;
  return one.y[low] === null ? null : [one.x[low], one.y[low]];
}

function niceTicks(low, high, wanted, whole = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * size).find((each) => each >= rough && (!whole || Number.isInteger(each)));
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 0.999; tick += step) ticks.push(Number(tick.toPrecision(10)));
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    if (10 ** power >= low * 0.999 && 10 ** power <= high * 1.001) ticks.push(10 ** power);
  }
  return ticks.length ? ticks : [low, high];
}
