// The graph on one canvas. Edges are drawn once, on a layer of their own, and again only when the view changes; every
// frame stamps the agents over it, and what is lit for a moment: a thousand of them stay fluent.

import { armColour, palette } from "./palette.js";
import { MARK } from "./state.js";

const GLOW_MS = 900;
const MOST_LIT = 3000; // edges that glow at once; more would only flicker
const REACH = 14; // pixels around an agent that count as touching it
const LABELLED = 9; // radius from which on an agent has room for its number

export class GraphView {
  constructor(canvas, { chosen, selected }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: true });
    this.layer = document.createElement("canvas");
    this.onChosen = chosen;
    this.onSelected = selected;
    this.places = [];
    this.edges = [];
    this.edgesOf = [];
    this.selection = new Set();
    this.current = -1;
    this.zoom = 1;
    this.shift = [0, 0];
    this.glowing = new Map();
    this.pulsing = new Map();
    this.cut = new Set();
    this.lasso = null;
    this.lassoing = false;
    this.frames = 0;
    this.stamps = new Map();
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.asked = 0;
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.listen();
  }

  setGraph(places, edges) {
    this.places = places;
    this.edges = edges;
    this.edgesOf = places.map(() => []);
    edges.forEach(([i, j], number) => { this.edgesOf[i]?.push(number); this.edgesOf[j]?.push(number); });
    this.arm = new Int32Array(places.length).fill(-1);
    this.marks = new Uint8Array(places.length);
    this.size = new Float32Array(places.length).fill(1);
    this.selection.clear();
    this.current = -1;
    this.apart = usualDistance(places);
    this.canvas.dataset.nodes = places.length;
    this.canvas.dataset.edges = edges.length;
    this.fit();
  }

  /** Colours, marks and cut edges as they are now. */
  show(arm, marks, cut) {
    this.arm = arm;
    this.marks = marks;
    if (cut.length !== this.cut.size || cut.some((edge) => !this.cut.has(edge))) {
      this.cut = new Set(cut);
      this.canvas.dataset.cut = cut.length;
      this.stale = true;
    }
    this.canvas.dataset.dead = marks.reduce((count, mask) => count + (mask & MARK.dead ? 1 : 0), 0);
    this.ask();
  }

  /** How much each agent has sent, or how many neighbours it has where nobody told. */
  weigh(amounts) {
    const most = amounts.reduce((a, b) => Math.max(a, b), 0);
    for (let agent = 0; agent < this.size.length; agent++) {
      this.size[agent] = most ? 0.72 + 0.56 * Math.sqrt((amounts[agent] ?? 0) / most) : 1;
    }
    this.ask();
  }

  light(agents) {
    if (this.calm) return;
    const until = performance.now() + GLOW_MS;
    for (const agent of agents) {
      for (const edge of this.edgesOf[agent] ?? []) {
        if (this.cut.has(edge) || (this.glowing.size >= MOST_LIT && !this.glowing.has(edge))) continue;
        this.glowing.set(edge, until);
      }
    }
    this.ask();
  }

  pulse(agents) {
    if (this.calm) return;
    const until = performance.now() + GLOW_MS;
    for (const agent of agents.slice(0, 400)) this.pulsing.set(agent, until);
    this.ask();
  }

  // The view

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = Math.max(1, box.width);
    this.height = Math.max(1, box.height);
    for (const each of [this.canvas, this.layer]) {
      each.width = Math.round(this.width * this.ratio);
      each.height = Math.round(this.height * this.ratio);
    }
    this.place();
  }

  fit() {
    this.zoom = 1;
    this.shift = [0, 0];
    this.resize();
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(20, Math.max(1, this.zoom * factor)), change = zoom / this.zoom;
    this.shift = zoom === 1 ? [0, 0] : [x - (x - this.shift[0]) * change, y - (y - this.shift[1]) * change];
    this.zoom = zoom;
    this.place();
  }

  /** From the plane to pixels, all agents at once. */
  place() {
    const n = this.places.length;
    this.x = new Float32Array(n);
    this.y = new Float32Array(n);
    if (!n) return this.refresh();
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of this.places) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    const margin = Math.min(30, this.width / 12);
    const scale = Math.min((this.width - 2 * margin) / Math.max(right - left, 1e-6), (this.height - 2 * margin) / Math.max(bottom - top, 1e-6), 160);
    const middle = [(left + right) / 2, (top + bottom) / 2];
    this.places.forEach(([x, y], agent) => {
      this.x[agent] = ((x - middle[0]) * scale + this.width / 2) * this.zoom + this.shift[0];
      this.y[agent] = ((y - middle[1]) * scale + this.height / 2) * this.zoom + this.shift[1];
    });
    this.radius = Math.min(18, Math.max(2.2, 0.3 * this.apart * scale * this.zoom));
    this.refresh();
  }

  /** Colours or places are others: the layer of edges is drawn again. */
  refresh() {
    this.stale = true;
    this.stamps.clear();
    this.ask();
  }

  drawEdges() {
    const paint = this.layer.getContext("2d"), colours = palette();
    paint.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    paint.clearRect(0, 0, this.width, this.height);
    const crowding = this.edges.length / Math.max(1, this.places.length);
    paint.strokeStyle = colours.edge;
    paint.globalAlpha = Math.min(0.75, Math.max(0.12, 1.2 / crowding ** 0.7));
    paint.lineWidth = Math.min(1.6, Math.max(0.5, this.radius / 8));
    paint.beginPath();
    this.edges.forEach(([i, j], number) => {
      if (this.cut.has(number)) return;
      paint.moveTo(this.x[i], this.y[i]);
      paint.lineTo(this.x[j], this.y[j]);
    });
    paint.stroke();
    if (this.cut.size) {
      paint.strokeStyle = colours.cut;
      paint.globalAlpha = 0.75;
      paint.setLineDash([3, 6]);
      paint.beginPath();
      for (const number of this.cut) {
        const edge = this.edges[number];
        if (!edge) continue;
        paint.moveTo(this.x[edge[0]], this.y[edge[0]]);
        paint.lineTo(this.x[edge[1]], this.y[edge[1]]);
      }
      paint.stroke();
      paint.setLineDash([]);
    }
    paint.globalAlpha = 1;
    this.stale = false;
  }

  // Frames

  ask() {
    if (!this.asked) this.asked = requestAnimationFrame((now) => { this.asked = 0; this.draw(now); });
  }

  draw(now) {
    if (!this.width || !this.x) return;
    if (this.stale) this.drawEdges();
    const paint = this.context;
    paint.setTransform(1, 0, 0, 1, 0, 0);
    paint.clearRect(0, 0, this.canvas.width, this.canvas.height);
    paint.drawImage(this.layer, 0, 0);
    paint.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawNear(paint);
    this.drawGlow(paint, now);
    this.drawAgents(paint);
    this.drawMarks(paint);
    this.drawPulses(paint, now);
    this.drawChosen(paint);
    this.canvas.dataset.frames = ++this.frames;
    this.canvas.dataset.lit = this.glowing.size;
    if (this.glowing.size || this.pulsing.size) this.ask();
  }

  drawGlow(paint, now) {
    if (!this.glowing.size) return;
    const strong = [], weak = [];
    for (const [edge, until] of this.glowing) {
      const left = until - now;
      if (left <= 0) this.glowing.delete(edge);
      else (left > GLOW_MS / 2 ? strong : weak).push(edge);
    }
    paint.strokeStyle = palette().lit;
    paint.lineWidth = Math.min(2.4, Math.max(0.8, this.radius / 5));
    const most = Math.min(0.75, Math.max(0.14, 350 / this.glowing.size)); // many lit edges must not hide the agents
    for (const [edges, alpha] of [[weak, 0.4 * most], [strong, most]]) {
      if (!edges.length) continue;
      paint.globalAlpha = alpha;
      paint.beginPath();
      for (const number of edges) {
        const [i, j] = this.edges[number];
        paint.moveTo(this.x[i], this.y[i]);
        paint.lineTo(this.x[j], this.y[j]);
      }
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }

  /** The edges of the agent that is looked at. */
  drawNear(paint) {
    if (this.current < 0) return;
    paint.strokeStyle = palette().chosen;
    paint.lineWidth = Math.min(2.4, Math.max(1.2, this.radius / 6));
    paint.globalAlpha = 0.8;
    paint.beginPath();
    for (const number of this.edgesOf[this.current] ?? []) {
      if (this.cut.has(number)) continue;
      const [i, j] = this.edges[number];
      paint.moveTo(this.x[i], this.y[i]);
      paint.lineTo(this.x[j], this.y[j]);
    }
    paint.stroke();
    paint.globalAlpha = 1;
  }

  drawAgents(paint) {
    const byColour = new Map();
    for (let agent = 0; agent < this.places.length; agent++) {
      const colour = this.marks[agent] & MARK.dead ? palette().paper : armColour(this.arm[agent]);
      if (!byColour.has(colour)) byColour.set(colour, []);
      byColour.get(colour).push(agent);
    }
    for (const [colour, agents] of byColour) {
      for (const agent of agents) {
        const stamp = this.stamp(colour, Math.round(this.radius * this.size[agent] * 2) / 2);
        paint.drawImage(stamp, this.x[agent] - stamp.reach, this.y[agent] - stamp.reach, 2 * stamp.reach, 2 * stamp.reach);
      }
    }
    if (this.radius >= LABELLED) this.drawNumbers(paint);
  }

  /** A disc that is drawn once and stamped a thousand times; its rim keeps agents apart from their edges. */
  stamp(colour, radius) {
    const key = `${colour} ${radius} ${this.ratio}`;
    if (!this.stamps.has(key)) {
      const stamp = document.createElement("canvas"), reach = radius + 2;
      stamp.width = stamp.height = Math.ceil(2 * reach * this.ratio);
      stamp.reach = stamp.width / 2 / this.ratio;
      const paint = stamp.getContext("2d");
      paint.scale(this.ratio, this.ratio);
      for (const [fill, r] of [[palette().paper, radius + (radius >= 4 ? 1.2 : 0)], [colour, radius]]) {
        paint.fillStyle = fill;
        paint.beginPath();
        paint.arc(stamp.reach, stamp.reach, r, 0, 7);
        paint.fill();
      }
      this.stamps.set(key, stamp);
    }
    return this.stamps.get(key);
  }

  drawNumbers(paint) {
    paint.fillStyle = "#ffffff";
    paint.textAlign = "center";
    paint.textBaseline = "middle";
    paint.font = `600 ${Math.min(13, this.radius * 0.85)}px system-ui, sans-serif`;
    paint.lineWidth = 2.5;
    paint.strokeStyle = "rgba(0,0,0,.45)";
    for (let agent = 0; agent < this.places.length; agent++) {
      const beside = this.marks[agent] & (MARK.dead | MARK.paused) ? 1.7 * this.radius : 0; // a sign has its place
      paint.strokeText(String(agent), this.x[agent] + beside, this.y[agent] + 0.5);
      paint.fillText(String(agent), this.x[agent] + beside, this.y[agent] + 0.5);
    }
  }

  drawMarks(paint) {
    const colours = palette();
    for (let agent = 0; agent < this.places.length; agent++) {
      const mask = this.marks[agent] & ~MARK.done;
      if (!mask) continue;
      const [x, y, r] = [this.x[agent], this.y[agent], this.radius * this.size[agent]];
      if (mask & MARK.dead) this.cross(paint, x, y, r, colours.cut);
      if (mask & MARK.paused) this.pauseSign(paint, x, y, r);
      if (mask & MARK.late) this.ring(paint, agent, 3, colours.warn, [4, 3]);
      if (mask & MARK.disturbed) this.ring(paint, agent, 3, colours.warn, [1.5, 3]);
      if (mask & MARK.liar) this.horns(paint, x, y, r, colours.liar);
      if (mask & MARK.distrusted) { this.ring(paint, agent, 3, colours.cut, []); this.ring(paint, agent, 6, colours.cut, []); }
    }
  }

  cross(paint, x, y, r, colour) {
    paint.strokeStyle = colour;
    paint.lineWidth = Math.max(1.5, r / 5);
    paint.beginPath();
    paint.arc(x, y, r, 0, 7);
    const d = r * 0.5;
    paint.moveTo(x - d, y - d); paint.lineTo(x + d, y + d);
    paint.moveTo(x + d, y - d); paint.lineTo(x - d, y + d);
    paint.stroke();
  }

  pauseSign(paint, x, y, r) {
    paint.fillStyle = "rgba(0,0,0,.45)";
    paint.beginPath(); paint.arc(x, y, r, 0, 7); paint.fill();
    paint.fillStyle = "#ffffff";
    paint.fillRect(x - r * 0.42, y - r * 0.5, r * 0.28, r);
    paint.fillRect(x + r * 0.14, y - r * 0.5, r * 0.28, r);
  }

  horns(paint, x, y, r, colour) {
    paint.strokeStyle = colour;
    paint.fillStyle = colour;
    paint.lineWidth = Math.max(1.5, r / 5);
    paint.beginPath(); paint.arc(x, y, r + 1.5, 0, 7); paint.stroke();
    for (const side of [-1, 1]) {
      paint.beginPath();
      paint.moveTo(x + side * r * 0.85, y - r * 1.45);
      paint.lineTo(x + side * r * 0.95, y - r * 0.55);
      paint.lineTo(x + side * r * 0.25, y - r * 1.0);
      paint.fill();
    }
  }

  drawPulses(paint, now) {
    for (const [agent, until] of this.pulsing) {
      const left = (until - now) / GLOW_MS;
      if (left <= 0) { this.pulsing.delete(agent); continue; }
      paint.globalAlpha = left;
      this.ring(paint, agent, 2 + (1 - left) * this.radius, armColour(this.arm[agent]), []);
    }
    paint.globalAlpha = 1;
  }

  drawChosen(paint) {
    const colours = palette();
    for (const agent of this.selection) this.ring(paint, agent, 4, colours.chosen, []);
    if (this.current >= 0) { this.ring(paint, this.current, 2, colours.ink, []); this.ring(paint, this.current, 5, colours.chosen, []); }
    if (this.lasso && this.lasso.length > 1) {
      paint.strokeStyle = colours.chosen;
      paint.fillStyle = colours.chosen;
      paint.lineWidth = 1.5;
      paint.setLineDash([5, 4]);
      paint.beginPath();
      this.lasso.forEach(([x, y], place) => (place ? paint.lineTo(x, y) : paint.moveTo(x, y)));
      paint.closePath();
      paint.stroke();
      paint.globalAlpha = 0.1;
      paint.fill();
      paint.globalAlpha = 1;
      paint.setLineDash([]);
    }
  }

  circle(paint, agent, more) {
    const r = this.radius * this.size[agent] + more;
    paint.moveTo(this.x[agent] + r, this.y[agent]);
    paint.arc(this.x[agent], this.y[agent], r, 0, 7);
  }

  ring(paint, agent, more, colour, dash) {
    paint.strokeStyle = colour;
    paint.lineWidth = 2;
    paint.setLineDash(dash);
    paint.beginPath();
    this.circle(paint, agent, more);
    paint.stroke();
    paint.setLineDash([]);
  }

  // Choosing

  choose(agent, tell = true) {
    this.current = agent;
    this.ask();
    if (tell) this.onChosen(agent);
  }

  select(agents) {
    this.selection = new Set(agents);
    this.ask();
    this.onSelected([...this.selection].sort((a, b) => a - b));
  }

  toggle(agent) {
    const selection = new Set(this.selection);
    if (!selection.delete(agent)) selection.add(agent);
    this.select(selection);
  }

  at(x, y) {
    let [found, least] = [-1, (this.radius + REACH) ** 2];
    for (let agent = 0; agent < this.places.length; agent++) {
      const far = (this.x[agent] - x) ** 2 + (this.y[agent] - y) ** 2;
      if (far < least) [found, least] = [agent, far];
    }
    return found;
  }

  listen() {
    const where = (event) => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let from = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = { at: where(event), shift: this.shift, moved: false };
      this.canvas.setPointerCapture(event.pointerId);
      if (this.lassoing) this.lasso = [from.at];
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = where(event);
      from.moved ||= Math.hypot(x - from.at[0], y - from.at[1]) > 4;
      if (this.lasso) { this.lasso.push([x, y]); this.ask(); }
      else if (from.moved && this.zoom > 1) { this.shift = [from.shift[0] + x - from.at[0], from.shift[1] + y - from.at[1]]; this.place(); }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (!from) return;
      const [x, y] = where(event), lasso = this.lasso, moved = from.moved;
      from = null;
      this.lasso = null;
      if (lasso && moved) this.select(this.inside(lasso, event.shiftKey));
      else if (!moved) this.touched(this.at(x, y), event.shiftKey || this.lassoing);
      this.ask();
    });
    this.canvas.addEventListener("pointercancel", () => { from = null; this.lasso = null; this.ask(); });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // the page scrolls
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2, ...where(event));
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  touched(agent, adding) {
    if (agent < 0) return;
    if (adding) this.toggle(agent);
    this.choose(agent);
  }

  inside(polygon, adding) {
    const found = adding ? new Set(this.selection) : new Set();
    for (let agent = 0; agent < this.places.length; agent++) {
      if (isInside(polygon, this.x[agent], this.y[agent])) found.add(agent);
    }
    return found;
  }

  key(event) {
    const ways = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const done = () => event.preventDefault();
    if (ways[event.key]) { this.choose(this.towards(...ways[event.key])); return done(); }
    if (event.key === "Home") { this.choose(0); return done(); }
    if (event.key === "End") { this.choose(this.places.length - 1); return done(); }
    if (event.key === " " && this.current >= 0) { this.toggle(this.current); return done(); }
    if (event.key === "Enter" && this.current >= 0) { this.choose(this.current); return done(); }
    if (event.key === "Escape") { this.select([]); return done(); }
    if (event.key === "+") { this.zoomBy(1.3); return done(); }
    if (event.key === "-") { this.zoomBy(1 / 1.3); return done(); }
  }

  /** The agent that is nearest in a direction; the way aside counts twice. */
  towards(dx, dy) {
    if (this.current < 0) return 0;
    let [found, least] = [this.current, Infinity];
    for (let agent = 0; agent < this.places.length; agent++) {
      const [x, y] = [this.x[agent] - this.x[this.current], this.y[agent] - this.y[this.current]];
      const [ahead, aside] = [x * dx + y * dy, Math.abs(x * dy) + Math.abs(y * dx)];
      if (ahead > 0.5 && ahead + 2 * aside < least) [found, least] = [agent, ahead + 2 * aside];
    }
    return found;
  }
}

function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [[xi, yi], [xj, yj]] = [polygon[i], polygon[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/** How far apart agents usually are: the median distance to the nearest other. */
function usualDistance(places) {
  if (places.length < 2) return 1;
  const every = Math.max(1, Math.floor(places.length / 400)); // a sample will do
  const nearest = [];
  for (let i = 0; i < places.length; i += every) {
    let least = Infinity;
    for (let j = 0; j < places.length; j++) {
      if (j !== i) least = Math.min(least, (places[i][0] - places[j][0]) ** 2 + (places[i][1] - places[j][1]) ** 2);
    }
    nearest.push(Math.sqrt(least));
  }
  nearest.sort((a, b) => a - b);
  return nearest[Math.floor(nearest.length / 2)];
}
