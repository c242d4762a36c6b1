// Lineage: what an item was made of on the left, what was made of it on the right, as a graph of links.

import { address, count, el, link, oneLine, plural, svg } from "./dom.js";

const WIDE = 200, HIGH = 40, GAP_X = 48, GAP_Y = 10, LETTERS = 27, MOST = 8;

export function lineageGraph({ nodes, edges, cut, foreign }, place) {
  const columns = new Map();
  nodes.forEach((node, at) => columns.set(node.depth, [...(columns.get(node.depth) ?? []), at]));
  const depths = [...columns.keys()].sort((a, b) => b - a), spots = new Map();
  const rows = Math.min(MOST, Math.max(...[...columns.values()].map((each) => each.length)));
  const high = rows * (HIGH + GAP_Y) + GAP_Y, wide = depths.length * (WIDE + GAP_X) - GAP_X + 4;
  const crowded = depths.filter((depth) => columns.get(depth).length > MOST);
  depths.forEach((depth, x) => {
    const shown = columns.get(depth).slice(0, MOST), top = (high - shown.length * (HIGH + GAP_Y) + GAP_Y) / 2;
    shown.forEach((at, y) => spots.set(at, { x: x * (WIDE + GAP_X) + 2, y: top + y * (HIGH + GAP_Y) }));
  });
  const lines = edges.filter((edge) => edge.every((at) => spots.has(at))).map(([derived, source]) => {
    const a = spots.get(source), b = spots.get(derived), [x1, y1, x2, y2] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
    return svg("path", { d: `M${x1} ${y1}C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}` });
  });
  const boxes = [...spots].map(([at, spot]) => box(nodes[at], spot, place));
  const drawing = svg("svg", { class: "family", width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "group", "aria-label": "Lineage" }, ...lines, ...boxes);
  const said = [crowded.length && `Of ${crowded.map((depth) => plural(columns.get(depth).length, "item")).join(" and ")} the first ${MOST} are drawn.`,
    cut && `Only the nearest ${count(nodes.length)} are told.`, foreign && `${plural(foreign, "item")} of other keys ${foreign === 1 ? "was" : "were"} made of it, too.`].filter(Boolean);
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph" }, drawing), said.length ? el("p", { class: "small soft" }, said.join(" ")) : "",
    el("details", {}, el("summary", { class: "small" }, "As a list"), el("ul", { class: "plain lineage" }, nodes.map((node, at) => at === 0 ? "" : el("li", {},
      el("span", { class: "small soft" }, node.depth > 0 ? "It was made of " : "Made of it: "), linked(node, place, oneLine(node.text || "(no text)", 160)), state(node))))));
}

const keyOf = (node, { key }) => (node.knowledge ? null : key);
const linked = (node, place, says) => node.erased ? el("span", { class: "soft" }, "(forgotten)")
  : link("item", { key: keyOf(node, place), set: node.set, id: node.id }, el("bdi", {}, says));
const state = (node) => (node.retired ? el("span", { class: "chip" }, "retired") : "");

function box(node, { x, y }, place) {
  const says = node.erased ? "(forgotten)" : oneLine(node.text || "(no text)", 200), [first, second] = folded(says);
  const kind = node.depth === 0 ? "own" : node.erased || node.retired ? "gone" : "";
  const inside = [svg("title", {}, says), svg("rect", { x, y, width: WIDE, height: HIGH, rx: 6 }),
    svg("text", { x: x + 10, y: y + (second ? 17 : 24) }, first), svg("text", { x: x + 10, y: y + 32 }, second)];
  if (node.erased || node.depth === 0) return svg("g", { class: `node ${kind}` }, ...inside);
  return svg("a", { class: `node ${kind}`, href: address("item", { key: keyOf(node, place), set: node.set, id: node.id }) }, ...inside);
}

function folded(text) {
  // Two lines of so many letters, broken at a space if there is one.
  if (text.length <= LETTERS) return [text, ""];
  const at = text.lastIndexOf(" ", LETTERS), cut = at > LETTERS / 2 ? at : LETTERS, rest = text.slice(cut).trim();
  return [text.slice(0, cut), rest.length > LETTERS ? `${rest.slice(0, LETTERS - 1)}…` : rest];
}
