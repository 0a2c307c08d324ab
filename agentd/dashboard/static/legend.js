// What colours, sizes and marks mean.

import { drawn, element, replace } from "./dom.js";
import { MOST_COLOURS } from "./palette.js";

const MOST_ARMS = 10;

const sign = (...parts) => drawn("svg", { width: 18, height: 18, viewBox: "0 0 18 18", "aria-hidden": "true" }, ...parts);
const circle = (attributes) => drawn("circle", { cx: 9, cy: 9, r: 6, ...attributes });

const MARKS = [
  ["dead", () => sign(circle({ fill: "none", stroke: "var(--bad)", "stroke-width": 1.8 }), drawn("path", { d: "M6 6l6 6M12 6l-6 6", stroke: "var(--bad)", "stroke-width": 1.8 }))],
  ["paused", () => sign(circle({ fill: "var(--dim)" }), drawn("path", { d: "M7 6v6M11 6v6", stroke: "var(--card)", "stroke-width": 2 }))],
  ["late or disturbed", () => sign(circle({ r: 4, fill: "var(--none)" }), circle({ r: 7, fill: "none", stroke: "var(--warn)", "stroke-width": 1.8, "stroke-dasharray": "4 3" }))],
  ["liar", () => sign(circle({ cy: 10, r: 5, fill: "var(--none)", stroke: "var(--liar)", "stroke-width": 1.8 }), drawn("path", { d: "M4.5 2.5l.4 4.5 2.6-1.8zM13.500 2.5l-.4 4.5-2.6-1.8z", fill: "var(--liar)" }))],
  ["distrusted by neighbours", () => sign(circle({ r: 4.5, fill: "none", stroke: "var(--bad)", "stroke-width": 1.6 }), circle({ r: 7.6, fill: "none", stroke: "var(--bad)", "stroke-width": 1.6 }))],
];

export function showLegend(place, about) {
  const best = about.means?.length ? about.means.indexOf(Math.max(...about.means)) : -1;
  const arm = (number) => element("span", {}, sign(circle({ class: `f${number % MOST_COLOURS}` })), `favours arm ${number}${number === best ? " (the best: environment’s view)" : ""}`);
  const arms = Array.from({ length: Math.min(about.arms || 0, MOST_ARMS) }, (_, number) => arm(number));
  if (about.arms > MOST_ARMS) arms.push(element("span", {}, `and ${about.arms - MOST_ARMS} more arms; colours repeat`));
  replace(place, ...arms, ...MARKS.map(([name, draw]) => element("span", {}, draw(), name)));
}
