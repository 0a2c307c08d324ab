// Several runs side by side.

import { showCharts } from "./charts.js";
import { byId, element, replace, shown, table } from "./dom.js";

const cards = new Map();

export async function showCompared(ask) {
  const told = await ask("/api/compare");
  showCharts(byId("compare-charts"), cards, told.charts, new Map(told.names.map((name, place) => [name, place])));
  const value = (each) => (each === null ? "–" : typeof each === "object" ? JSON.stringify(each) : shown(each));
  replace(byId("differences"), told.rows.length
    ? table(["Setting", ...told.names], told.rows.map((row) => [row.name, ...row.values.map(value)]), { rowHeadings: true })
    : element("p", { class: "note" }, "Their settings are the same."));
}
