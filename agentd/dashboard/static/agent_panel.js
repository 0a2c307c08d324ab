// One agent, closely: what it is doing, its neighbours, what it has released, the end of its log.

import { bytes, drawn, element, replace, shown, table } from "./dom.js";
import { MOST_COLOURS } from "./palette.js";
import { markNames } from "./state.js";

const MOST_NEIGHBOURS = 60;

export function showAgent(body, close, about, arm, mask, run) {
  const live = about ?? {};
  const facts = [
    ["State", markNames(mask).join(", ") || "well"],
    ["Favours", arm >= 0 ? `arm ${arm}` : "no arm yet"],
    ["Trial", live.trial], ["Round", live.round], ["Messages", live.messages],
    ["Sent", live.bytes === undefined ? undefined : bytes(live.bytes)], ["Dropped", live.dropped],
    ["ε spent", live.epsilon === null ? "no bound" : live.epsilon],
    ["Regret (environment’s view)", live.regret],
  ].filter(([, value]) => value !== undefined);
  replace(body,
    element("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, shown(value))])),
    ...released(close.released, run),
    ...pulls(close.pulls),
    ...neighbours(close.neighbours),
    ...log(close.log));
}

function released(told, run) {
  if (!told) return [element("h3", {}, "Released"), element("p", { class: "note" }, run.runtime?.startsWith("simulate") ? "Simulated: no agent ran, and none keeps a ledger." : "This agent keeps no ledger in the run directory.")];
  const note = `ε = ${shown(told.spent)} of one reward, in ${shown(told.releases)} releases; of ${told.covers}${told.seeded ? " (seeded: reproducible, not private)" : ""}.`;
  const rows = told.estimates.map((one) => [`arm ${one.arm}`, shown(one.mean), shown(one.pulls), shown(told.ledger.find((each) => each.arm === one.arm)?.spent)]);
  return [element("h3", {}, "Arms as far as it has released them"), element("p", { class: "note" }, note),
    rows.length ? table(["Arm", "Noised mean", "Pulls", "Σ ε"], rows, { rowHeadings: true }) : element("p", { class: "note" }, "Nothing was released yet.")];
}

function pulls(counts) {
  if (!counts.length) return [];
  const most = Math.max(1, ...counts);
  const row = (count, arm) => [
    element("span", {}, `arm ${arm}`),
    drawn("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawn("rect", { class: `f${arm % MOST_COLOURS}`, width: (100 * count) / most, height: 12 })),
    element("span", {}, shown(count))];
  return [element("h3", {}, "Pulls by arm (environment’s view)"), element("div", { class: "bars" }, ...counts.slice(0, 20).flatMap(row))];
}

function neighbours(rows) {
  if (!rows.length) return [];
  const heading = element("h3", {}, `Neighbours (${rows.length})`);
  const known = rows.some((one) => one.round !== null);
  const some = rows.slice(0, MOST_NEIGHBOURS);
  const more = rows.length > some.length ? [element("p", { class: "note" }, `and ${rows.length - some.length} more`)] : [];
  if (!known) return [heading, element("p", {}, some.map((one) => one.id).join(", ")), ...more];
  return [heading, table(["Agent", "Staleness", "Frames", "Trust"], some.map((one) => [String(one.id), staleness(one), shown(one.frames ?? null), trust(one)]), { rowHeadings: true }), ...more];
}

function staleness(one) {
  if (one.behind === null) return "–";
  return one.behind > 0 ? `${shown(one.behind)} rounds behind` : one.behind < 0 ? `${shown(-one.behind)} rounds ahead` : "in step";
}

function trust(one) {
  const said = [];
  if (one.trust !== null && one.trust !== undefined) said.push(`${shown(100 * one.trust)} %`);
  if (one.blamed_by.length) said.push(`blamed for being ${one.blamed_by.join(", ")}`);
  if (one.blames.length) said.push(`blames this one: ${one.blames.join(", ")}`);
  return said.join("; ") || "no complaint";
}

function log(lines) {
  return [element("h3", {}, "End of its log"),
    lines.length ? element("pre", { class: "log", tabindex: 0, role: "region", "aria-label": "End of the agent’s log" }, lines.join("\n")) : element("p", { class: "note" }, "There is no log of it here.")];
}
