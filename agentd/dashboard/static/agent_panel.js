// One agent, closely: what it is doing, its neighbours, what it has released, the end of its log.

import { bytes, drawn, element, replace, shown, table } from "./dom.js";
import { MOST_COLOURS } from "./palette.js";
import { markNames } from "./state.js";

const MOST_NEIGHBOURS = 60;

export function showAgent(body, close, about, mask, run) {
  const live = about ?? {};
  const facts = [
    ["State", markNames(mask).join(", ") || "well"],
    ["Favours", live.arm >= 0 ? `arm ${live.arm}` : "no arm yet"],
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
  const behind = (one) => (one.behind === null ? "–" : one.behind > 0 ? `${shown(one.behind)} behind` : one.behind < 0 ? `${shown(-one.behind)} ahead` : "in step");
  const holds = (one) => [one.blamed_by.length ? `holds against it: ${one.blamed_by.join(", ")}` : "", one.blames.length ? `is blamed by it: ${one.blames.join(", ")}` : ""].filter(Boolean).join("; ") || "nothing";
  const more = rows.length > MOST_NEIGHBOURS ? [element("p", { class: "note" }, `and ${rows.length - MOST_NEIGHBOURS} more`)] : [];
  const extra = rows.some((one) => one.trust !== undefined);
  return [element("h3", {}, `Neighbours (${rows.length})`),
    table(["Agent", "Staleness", "Trust"], rows.slice(0, MOST_NEIGHBOURS).map((one) => [String(one.id), behind(one), extra && one.trust !== undefined ? shown(one.trust) : holds(one)]), { rowHeadings: true }), ...more];
}

function log(lines) {
  return [element("h3", {}, "End of its log"),
    lines.length ? element("pre", { class: "log", tabindex: 0, role: "region", "aria-label": "End of the agent’s log" }, lines.join("\n")) : element("p", { class: "note" }, "There is no log of it here.")];
}
