// Small helpers around the document. Text goes in as text: nothing in here, or anywhere else, parses markup.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is no node is text. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== false));
}

/** A table with a heading for each column and, if wanted, for each row. */
export function table(columns, rows, { caption = "", rowHeadings = false } = {}) {
  const cells = (row) => row.map((value, place) =>
    rowHeadings && place === 0 ? element("th", { scope: "row" }, value) : element("td", {}, value));
  return element("table", {},
    caption && element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))));
}

/** A number for people. */
export function shown(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return size >= 100 ? Math.round(value).toLocaleString("en") : size >= 1 ? value.toFixed(2).replace(/\.?0+$/, "") : value.toPrecision(3).replace(/\.?0+$/, "");
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}
