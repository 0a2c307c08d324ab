// The page: which run is shown, live or again, and who is told when something is new.

import { showAgent } from "./agent_panel.js";
import { ChaosPanel, token } from "./chaos.js";
import { showCharts } from "./charts.js";
import { showCompared } from "./compare.js";
import { byId, bytes, element, replace, shown } from "./dom.js";
import { GraphView } from "./graph.js";
import { showLegend } from "./legend.js";
import { themeButton } from "./palette.js";
import { Player } from "./player.js";
import { RunState } from "./state.js";

const CHARTS_EVERY_MS = 4000;
const AGENT_EVERY_MS = 3000;
const FIGURES_EVERY_MS = 120;

const page = { runs: [], run: 0, state: new RunState(0), cards: new Map(), stream: null, chaos: null, timers: [] };

async function ask(path) {
  const answer = await fetch(path);
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

function complain(what) {
  byId("trouble").textContent = what;
  byId("trouble").hidden = !what;
}

const about = () => page.runs[page.run];

// What is shown

function tile(name, value, { unit = "", view = "" } = {}) {
  return element("div", { class: "tile" }, element("dt", {}, name),
    element("dd", {}, value, unit && element("small", {}, ` ${unit}`), view && element("span", { class: "view" }, view)));
}

function showTiles(figures) {
  const { summary, settings, agents } = about();
  const rounds = figures.rounds ?? settings.rounds, regret = figures.regret ?? summary.group_regret;
  const spent = figures.epsilon ?? summary.privacy?.per_agent_epsilon;
  replace(byId("tiles"),
    tile("Round", shown(figures.round ?? summary.rounds_made ?? 0), { unit: rounds ? `of ${shown(rounds)}` : "" }),
    tile("Group regret", shown(regret ?? null), { unit: regret ? `${shown(regret / Math.max(1, agents))} per agent` : "", view: "environment’s view" }),
    tile("ε spent on a reward", shown(spent ?? null), { unit: settings.epsilon ? `ε asked for: ${shown(settings.epsilon)}` : "", view: privacyNote(summary) }),
    tile("Messages", shown(figures.messages ?? summary.messages ?? null), { unit: bytes(figures.bytes ?? summary.bytes) }),
    tile("Dropped", shown(figures.dropped ?? total(summary.dropped))),
    figures.running && !figures.over ? tile("Speed", shown(figures.pulls_per_s ?? 0), { unit: "pulls/s" }) : tile("Took", shown(summary.wall_s ?? null), { unit: "s" }));
}

const total = (counts) => (counts && typeof counts === "object" ? Object.values(counts).reduce((a, b) => a + b, 0) : null);

function privacyNote(summary) {
  const told = summary.privacy?.transcript_private;
  if (summary.privacy?.simulated) return "simulated: nothing left an agent";
  if (summary.privacy?.reproducible) return "seeded: not private";
  return told === true ? "of all that leaves an agent" : told === false ? "of noised sums only" : "of the agent that spent most";
}

function showState(figures) {
  const pill = byId("state");
  const live = Boolean(figures.running && !figures.over);
  pill.className = `pill${live ? " live" : ""}`;
  pill.textContent = live ? "Live" : about().summary.failure ? "Failed" : about().summary.interrupted ? "Interrupted" : "Replay";
}

function showFaults(faults) {
  const row = (fault) => element("li", {}, element("b", {}, `round ${shown(fault.round)}`), element("span", {}, fault.what));
  replace(byId("faults"), ...(faults.length ? [...faults].reverse().map(row) : [element("li", {}, "Nothing was done to this run.")]));
}

function showSettings() {
  const row = ([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "–")));
  const { created, runtime, gamma, seed, settings } = about();
  const all = { created, runtime, ...settings, gamma: gamma ?? settings.gamma, seed };
  replace(byId("settings"), element("dl", {}, ...Object.entries(all).map(row)));
}

function tellGraph() {
  const { arm, marks } = page.state;
  const share = new Map();
  for (const each of arm) share.set(each, (share.get(each) ?? 0) + 1);
  const favours = [...share].filter(([each]) => each >= 0).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([each, count]) => `${count} favour arm ${each}`);
  const unwell = marks.reduce((count, mask) => count + (mask & 63 ? 1 : 0), 0);
  byId("graph").setAttribute("aria-label", `Graph of ${arm.length} agents and ${about().edges} edges. ${favours.join(", ")}. ${unwell ? `${unwell} are marked.` : "All are well."}`);
}

// One agent

async function openAgent(agent) {
  if (page.agent !== agent) byId("find").value = agent; // not when it is only looked at again: somebody may be typing
  page.agent = agent;
  byId("agent-title").textContent = `Agent ${agent}`;
  try {
    const close = await ask(`/api/runs/${page.run}/agents/${agent}`);
    if (page.agent !== agent) return;
    showAgent(byId("agent-body"), close, page.state.about.get(agent), page.state.arm[agent] ?? -1, page.state.marks[agent] ?? 0, about());
    byId("graph-said").textContent = `Agent ${agent}, ${page.state.arm[agent] >= 0 ? `favours arm ${page.state.arm[agent]}` : "no arm yet"}, ${close.neighbours.length} neighbours`;
  } catch (fault) {
    replace(byId("agent-body"), element("p", { class: "note" }, fault.message));
  }
}

function selectionChanged(agents) {
  byId("clear-selection").disabled = !agents.length;
  page.chaos?.select(agents.length ? agents : []);
}

function agentChosen(agent) {
  openAgent(agent);
  if (page.chaos && !graph.selection.size) page.chaos.select([agent]);
}

const graph = new GraphView(byId("graph"), { chosen: agentChosen, selected: selectionChanged });

const player = new Player((moment, playing) => {
  page.state.arm = moment.arm;
  page.state.marks = moment.marks;
  graph.show(moment.arm, moment.marks, moment.cut);
  if (playing) { graph.pulse(moment.turned); graph.light(moment.sent); }
  const now = performance.now();
  if (playing && now < player.told + FIGURES_EVERY_MS) return; // the graph is fluent, figures need not be
  player.told = now;
  for (const card of page.cards.values()) card.moveTo(moment.round);
  const { round, regret, messages, bytes: sent, dropped, epsilon } = moment; // what no history tells is as at the end
  const then = Object.entries({ messages, bytes: sent, dropped, epsilon }).filter(([, value]) => value !== undefined);
  showTiles({ ...page.state.figures, ...Object.fromEntries(then), round, regret });
});

// Live

function follow() {
  page.stream = new EventSource(`/api/runs/${page.run}/stream`);
  page.stream.addEventListener("look", (event) => { complain(""); take(JSON.parse(event.data)); });
  page.stream.addEventListener("over", () => { page.stream.close(); isOver(); });
  page.stream.onerror = () => complain("The dashboard does not answer; it is asked again.");
}

function take(news) {
  const { state } = page;
  state.fold(news);
  showState(state.figures);
  showTiles(state.figures);
  if (news.faults) showFaults(state.faults);
  if (state.figures.running || !player.moments.length) {
    graph.show(state.arm, state.marks, state.cut);
    graph.pulse(state.turned);
    graph.light(state.sent);
  }
  if (news.agents) weigh();
  tellGraph();
}

function weigh() {
  const told = page.state.messages.some((count) => count > 0);
  const amounts = told ? page.state.messages : graph.edgesOf.map((edges) => edges.length);
  graph.weigh(amounts);
  byId("graph-note").textContent = `colour: the arm it favours · size: ${told ? "messages sent" : "number of neighbours"}`;
}

async function isOver() {
  page.timers.forEach(clearInterval);
  page.timers = [];
  const { runs } = await ask("/api/runs");
  page.runs = runs;
  showState(page.state.figures);
  await refreshCharts();
  if (page.agent !== undefined) openAgent(page.agent);
  try {
    const { moments } = await ask(`/api/runs/${page.run}/story`);
    player.load(about().agents, moments, moments.length ? lastRound(moments) : 0);
    tellGraph();
  } catch { /* a run without pulls has no story */ }
}

const lastRound = (moments) => moments[moments.length - 1].round ?? about().summary.rounds_made ?? 0;

async function refreshCharts() {
  try {
    const run = page.run, { charts } = await ask(`/api/runs/${run}/charts`);
    if (run !== page.run) return; // another one was chosen meanwhile
    if (!page.cards.size) replace(byId("charts"));
    showCharts(byId("charts"), page.cards, charts);
  } catch (fault) {
    if (!page.cards.size) replace(byId("charts"), element("p", { class: "note" }, fault.message));
  }
}

async function openRun(number) {
  page.stream?.close();
  page.timers.forEach(clearInterval);
  page.run = number;
  page.agent = undefined;
  for (const card of page.cards.values()) card.node.remove();
  page.cards.clear();
  replace(byId("charts"), element("p", { class: "note" }, "The charts are being made…"));
  player.clear();
  const { places, edges } = await ask(`/api/runs/${number}/graph`);
  page.state = new RunState(places.length);
  graph.setGraph(places, edges);
  byId("find").max = Math.max(0, places.length - 1);
  byId("title").textContent = `${about().algorithm ?? "run"} · ${shown(places.length)} agents · ${about().name}`;
  document.title = `${about().name} – agentd`;
  showLegend(byId("legend"), about());
  showSettings();
  showFaults(about().faults);
  showTiles({});
  weigh();
  follow();
  refreshCharts();
  if (about().live) {
    page.timers = [setInterval(() => document.hidden || refreshCharts(), CHARTS_EVERY_MS),
      setInterval(() => document.hidden || page.agent === undefined || openAgent(page.agent), AGENT_EVERY_MS)];
  }
}

// Views

function show(view) {
  byId("run-view").hidden = view !== "run";
  byId("compare-view").hidden = view !== "compare";
  byId("state").hidden = view !== "run";
  byId("chooser").hidden = page.runs.length < 2 || view !== "run";
  for (const button of byId("views").children) button.setAttribute("aria-current", String(button.dataset.view === view));
  if (view === "compare") {
    byId("title").textContent = `${page.runs.length} runs`;
    showCompared(ask).catch((fault) => complain(fault.message));
  } else {
    graph.resize();
    byId("title").textContent = `${about().algorithm ?? "run"} · ${shown(about().agents)} agents · ${about().name}`;
  }
}

function offerViews() {
  const button = (view, name) => element("button", { type: "button", "data-view": view, click: () => show(view) }, name);
  replace(byId("views"), button("run", "One run"), button("compare", "Compare"));
  byId("views").hidden = false;
  replace(byId("run-choice"), ...page.runs.map((run) => element("option", { value: run.number }, run.name)));
  byId("run-choice").addEventListener("change", (event) => openRun(Number(event.target.value)).catch((fault) => complain(fault.message)));
}

function listen() {
  byId("zoom-in").addEventListener("click", () => graph.zoomBy(1.4));
  byId("zoom-out").addEventListener("click", () => graph.zoomBy(1 / 1.4));
  byId("zoom-fit").addEventListener("click", () => graph.fit());
  byId("clear-selection").addEventListener("click", () => graph.select([]));
  byId("lasso").addEventListener("click", () => {
    graph.lassoing = !graph.lassoing;
    byId("lasso").setAttribute("aria-pressed", String(graph.lassoing));
    byId("graph").classList.toggle("lassoing", graph.lassoing);
  });
  const find = () => {
    const agent = byId("find").value === "" ? -1 : Number(byId("find").value);
    if (Number.isInteger(agent) && agent >= 0 && agent < about().agents) graph.choose(agent);
  };
  byId("find").addEventListener("change", find);
  byId("find").addEventListener("keydown", (event) => event.key === "Enter" && find());
}

async function start() {
  themeButton(byId("theme"), () => graph.refresh());
  listen();
  const told = await ask("/api/runs");
  page.runs = told.runs;
  if (told.chaos && token()) page.chaos = new ChaosPanel(() => page.run);
  if (page.runs.length > 1) offerViews();
  await openRun(0);
  show(page.runs.length > 1 ? "compare" : "run");
  document.body.dataset.ready = "yes";
}

start().catch((fault) => complain(`The page cannot be shown: ${fault.message}`));
