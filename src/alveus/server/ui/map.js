// Map: items as points by meaning. A box, drawn by pointer or keys, selects, and lists what is in it.

import { get, post, Refused } from "./api.js";
import { address, card, count, el, empty, field, head, link, oneLine, plural, said, setNames, time } from "./dom.js";
import { itemRow } from "./key.js";
import { virtualList } from "./list.js";

const COLOURS = 6, TIMES = 32, CELLS = 64, EDGE = 14, NEAR = 12;

export async function mapPage({ query, signal, onCommit }) {
  const { keys } = await get("keys", { limit: 200 }, signal);
  const key = el("input", { name: "key", value: query.key ?? keys[0] ?? "", list: "keys", placeholder: "empty: knowledge" });
  const sets = el("input", { name: "sets", value: query.set ?? "", placeholder: "all, or a, b" });
  const by = el("select", { name: "by" }, [["time", "Time"], ["speaker", "Speaker"], ["set", "Set"]].map(([value, title]) =>
    el("option", { value, selected: value === (query.by ?? "time") }, title)));
  const out = el("div", {}), newer = el("p", { role: "status" });
  let latest = null, timer = null, shown = null;
  const draw = async () => {
    latest?.abort();
    const own = (latest = new AbortController());
    signal.addEventListener("abort", () => own.abort());
    newer.replaceChildren();
    note();
    const place = { key: key.value };
    try {
      const points = await get("map", { ...place, sets: setNames(sets.value, query.set) }, own.signal);
      shown = points.ids.length ? mapView(points, place, by.value, signal) : null;
      out.replaceChildren(shown?.box ?? card(null, empty("No points yet.", points.unplaced
        ? `${plural(points.unplaced, "item")} wait to be embedded, or have no text.` : "Each item that a program adds becomes a point here.")));
    } catch (error) {
      if (error.name === "AbortError") return;
      out.replaceChildren(error instanceof Refused && error.status === 400 ? card(null, empty("There is no map of it.", error.message))
        : el("div", { class: "fault", role: "alert" }, error.message));
    }
  };
  const note = () => history.replaceState(null, "", address("map", { key: key.value, set: sets.value, by: by.value }));
  const soon = () => { clearTimeout(timer); timer = setTimeout(draw, 250); };
  key.addEventListener("input", soon);
  sets.addEventListener("input", soon);
  by.addEventListener("change", () => { note(); shown?.colour(by.value); });
  await draw();
  // A map that somebody looks at does not move under his hand.
  onCommit(() => newer.replaceChildren("There are newer commits. ", el("button", { type: "button", onclick: draw }, "Draw again")), { always: true });
  return [head("Map"), card(null, el("form", { onsubmit: (event) => event.preventDefault() }, field("Key", key), field("Sets", sets), field("Colour by", by),
    el("datalist", { id: "keys" }, keys.map((name) => el("option", { value: name }))))), newer, out];
}

// --- what is drawn, and what is in the box

function mapView(points, place, first, signal) {
  const canvas = el("canvas", { "aria-hidden": true }), legend = el("div", { class: "map-legend" }), says = el("p", { class: "small soft", role: "status" });
  const near = el("p", { class: "small soft near" }), list = el("div", {}), frame = el("div", { class: "map-box", hidden: true });
  const area = el("div", { class: "map", tabindex: "0", role: "group", "aria-label": `Map of ${plural(points.ids.length, "item")}`, "aria-describedby": "map-keys" }, canvas, frame);
  const index = buckets(points), all = bounds(points);
  let view = all, box = null, found = [], tints = null, by = first, waiting = false, timer = null;

  const zoomIn = el("button", { type: "button", disabled: true, onclick: () => { view = stretched(box); choose(null); } }, "Zoom in");
  const zoomOut = el("button", { type: "button", hidden: true, onclick: () => { view = all; choose(null); } }, "Show all");
  const clear = el("button", { type: "button", disabled: true, onclick: () => choose(null) }, "Select none");

  const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };
  const paint = () => {
    waiting = false;
    const { width, height } = area.getBoundingClientRect(), ratio = Math.min(devicePixelRatio, 2);
    if (!width || signal.aborted) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    tints ??= tinted(points, by);
    drawn(canvas, points, view, tints, found, box !== null, ratio);
    legend.replaceChildren(...tints.legend);
    frame.hidden = box === null;
    if (box) {
      const [left, top] = toPixels(box.left, box.top), [right, bottom] = toPixels(box.right, box.bottom);
      Object.assign(frame.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    }
  };
  const inner = () => ({ wide: area.clientWidth - 2 * EDGE, high: area.clientHeight - 2 * EDGE });
  const toPixels = (x, y) => { const { wide, high } = inner(); return [EDGE + (wide * (x - view.left)) / (view.right - view.left), EDGE + (high * (view.top - y)) / (view.top - view.bottom)]; };
  const toPlane = (x, y) => { const { wide, high } = inner(); return [view.left + ((view.right - view.left) * (x - EDGE)) / wide, view.top - ((view.top - view.bottom) * (y - EDGE)) / high]; };
  const choose = (next, nearest) => {
    box = next;
    found = next ? (nearest ?? index.within(next)) : [];
    zoomIn.disabled = clear.disabled = !next;
    zoomOut.hidden = view === all;
    says.textContent = next ? `${count(found.length)} of ${plural(points.ids.length, "item")} selected` : told(points);
    clearTimeout(timer);
    timer = setTimeout(() => list.replaceChildren(found.length ? chosen(points, found, place, signal) : ""), 120);
    later();
  };

  // --- by pointer
  let from = null;
  const where = (event) => { const { left, top } = area.getBoundingClientRect(); return [event.clientX - left - area.clientLeft, event.clientY - top - area.clientTop]; };
  const between = ([a, b], [c, d]) => {
    const [left, top] = toPlane(Math.min(a, c), Math.min(b, d)), [right, bottom] = toPlane(Math.max(a, c), Math.max(b, d));
    return { left, right, bottom, top };
  };
  const around = ([x, y]) => between([x - NEAR, y - NEAR], [x + NEAR, y + NEAR]);
  const nearest = (at) => {
    const [x, y] = toPlane(...at), [sx, sy] = [view.right - view.left, view.top - view.bottom];
    let best = -1, least = Infinity;
    for (const i of index.within(around(at))) {
      const far = ((points.x[i] - x) / sx) ** 2 + ((points.y[i] - y) / sy) ** 2;
      if (far < least) { least = far; best = i; }
    }
    return best;
  };
  area.addEventListener("pointerdown", (event) => { if (event.button === 0) { from = where(event); area.setPointerCapture(event.pointerId); area.focus({ preventScroll: true }); } });
  area.addEventListener("pointermove", (event) => {
    const at = where(event);
    if (from && Math.hypot(at[0] - from[0], at[1] - from[1]) > 3) choose(between(from, at));
    else if (!from) hover(nearest(at));
  });
  area.addEventListener("pointerup", (event) => {
    const at = where(event), one = from && Math.hypot(at[0] - from[0], at[1] - from[1]) <= 3 ? nearest(at) : null;
    from = null;
    if (one !== null) choose(one < 0 ? null : around(toPixels(points.x[one], points.y[one])), [one]);
  });
  area.addEventListener("pointercancel", () => { from = null; });
  let over = -1, rest = null;
  const hover = (i) => {
    if (i === over) return;
    over = i;
    clearTimeout(rest);
    if (i < 0) { near.replaceChildren(); return; }
    rest = setTimeout(async () => {
      const [item] = await read(points, [i], place, signal).catch(() => []);
      if (item && over === i) near.replaceChildren(item.speaker ? el("bdi", {}, `${oneLine(item.speaker, 60)}: `) : "", el("bdi", {}, oneLine(said(item), 200)), " · ", time(item.time));
    }, 60);
  };

  // --- by keys
  const moved = (event) => {
    const [right, up] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
    if (event.key === "Escape") choose(null);
    else if (event.key === "Enter" && box) { view = stretched(box); choose(null); }
    else if (event.key === "Backspace") { view = all; choose(null); }
    else if (right || up) {
      const wide = view.right - view.left, high = view.top - view.bottom;
      const old = box ?? { left: view.left + wide * 0.4, right: view.right - wide * 0.4, bottom: view.bottom + high * 0.4, top: view.top - high * 0.4 };
      const [x, y] = [right * wide * 0.04, up * high * 0.04];
      if (!box) choose(old);
      else if (event.shiftKey) choose({ ...old, right: Math.max(old.left + wide * 0.02, old.right + x), top: Math.max(old.bottom + high * 0.02, old.top + y) });
      else choose({ left: old.left + x, right: old.right + x, bottom: old.bottom + y, top: old.top + y });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  area.addEventListener("keydown", moved);

  new ResizeObserver(later).observe(area);
  const scheme = new MutationObserver(() => { tints = null; later(); });
  scheme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  signal.addEventListener("abort", () => scheme.disconnect());
  choose(null);
  const shape = el("section", { class: "card" }, area, legend, near,
    el("div", { class: "row" }, zoomIn, zoomOut, clear, says),
    el("p", { class: "small soft", id: "map-keys" }, "Draw a box to select. By keys: the arrows move a box, with Shift they size it; Enter zooms in, Backspace shows all, Escape selects none."));
  return { box: el("div", {}, shape, list), colour: (next) => { by = next; tints = null; later(); } };
}

const told = (points) => [plural(points.ids.length, "item"), points.left_out && `${count(points.left_out)} more are left out`,
  points.unplaced && `${count(points.unplaced)} wait to be embedded, or have no text`, `the two directions show ${Math.round(100 * points.share)} % of all difference`].filter(Boolean).join("; ");

function bounds({ x, y }) {
  const all = { left: 1, right: -1, bottom: 1, top: -1 };
  for (let i = 0; i < x.length; i += 1) {
    all.left = Math.min(all.left, x[i]); all.right = Math.max(all.right, x[i]);
    all.bottom = Math.min(all.bottom, y[i]); all.top = Math.max(all.top, y[i]);
  }
  return all.right - all.left > 1e-3 && all.top - all.bottom > 1e-3 ? all : { left: -1, right: 1, bottom: -1, top: 1 };
}

function stretched(box) {
  // What is zoomed to: the box, but never nothing.
  const wide = Math.max(box.right - box.left, 1e-4), high = Math.max(box.top - box.bottom, 1e-4);
  return { left: box.left, right: box.left + wide, bottom: box.bottom, top: box.bottom + high };
}

// --- buckets: which points are in a box, without a look at each

export function buckets({ x, y }) {
  const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(((value + 1) / 2) * CELLS)));
  const starts = new Uint32Array(CELLS * CELLS + 1), order = new Uint32Array(x.length), at = new Uint16Array(x.length);
  for (let i = 0; i < x.length; i += 1) { at[i] = cell(y[i]) * CELLS + cell(x[i]); starts[at[i] + 1] += 1; }
  for (let c = 0; c < CELLS * CELLS; c += 1) starts[c + 1] += starts[c];
  const next = starts.slice();
  for (let i = 0; i < x.length; i += 1) { order[next[at[i]]] = i; next[at[i]] += 1; }
  const within = (box) => {
    const found = [], [left, right, bottom, top] = [box.left, box.right, box.bottom, box.top].map(cell);
    for (let row = bottom; row <= top; row += 1) {
      for (let column = left; column <= right; column += 1) {
        const whole = row > bottom && row < top && column > left && column < right;
        for (let n = starts[row * CELLS + column]; n < starts[row * CELLS + column + 1]; n += 1) {
          const i = order[n];
          if (whole || (x[i] >= box.left && x[i] <= box.right && y[i] >= box.bottom && y[i] <= box.top)) found.push(i);
        }
      }
    }
    return found;
  };
  return { within };
}

// --- colours

function tinted(points, by) {
  const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim();
  const ground = css("--paper");
  if (by === "time") {
    const stops = [0, 1, 2, 3, 4].map((n) => rgb(css(`--t${n}`)));
    const ramp = Array.from({ length: TIMES }, (_, n) => blend(stops, n / (TIMES - 1)));
    let [first, last] = [Infinity, -Infinity];
    for (const t of points.times) { first = Math.min(first, t); last = Math.max(last, t); }
    const of = Uint8Array.from(points.times, (t) => Math.round(((TIMES - 1) * (t - first)) / (last - first || 1)));
    const strip = el("span", { class: "ramp", "aria-hidden": "true" });
    const [a, b] = [first, last].map((t) => time(new Date(t * 1000).toISOString()));
    return { of, colours: ramp, ground: rgb(ground), legend: [a, strip, b] };
  }
  const [codes, names] = by === "set" ? [points.set, points.sets] : [points.speaker, points.speakers];
  const uses = new Map();
  for (const code of codes) uses.set(code, (uses.get(code) ?? 0) + 1);
  const ranked = [...uses.keys()].filter((code) => code >= 0).sort((a, b) => uses.get(b) - uses.get(a)), most = ranked.slice(0, ranked.length > COLOURS ? COLOURS - 1 : COLOURS);
  const place = new Map(most.map((code, n) => [code, n])), other = COLOURS;
  const of = Uint8Array.from(codes, (code) => place.get(code) ?? other);
  const rest = points.ids.length - most.reduce((sum, code) => sum + uses.get(code), 0);
  const entry = (n, says) => el("li", {}, el("i", { class: `m${n}` }), says);
  return { of, colours: Array.from({ length: COLOURS + 1 }, (_, n) => rgb(css(`--m${n}`))), ground: rgb(ground), legend: [el("ul", { class: "legend" },
    most.map((code, n) => entry(n, [el("bdi", {}, oneLine(names[code], 40)), ` ${count(uses.get(code))}`])), rest > 0 && entry(other, `${by === "speaker" ? "Others, or nobody" : "Others"} ${count(rest)}`))] };
}

const rgb = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

function blend(stops, share) {
  const at = Math.min(stops.length - 2, Math.floor(share * (stops.length - 1))), part = share * (stops.length - 1) - at;
  return stops[at].map((value, n) => Math.round(value + part * (stops[at + 1][n] - value)));
}

function drawn(canvas, points, view, { of, colours, ground }, found, selecting, ratio) {
  // Pixels are written one by one: a hundred thousand squares by calls would take ten times as long.
  const { width, height } = canvas, context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer), edge = EDGE * ratio, size = Math.round((points.ids.length > 20_000 ? 2 : points.ids.length > 1_000 ? 3 : 5) * ratio);
  const packed = (colour) => (255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0];
  const strong = colours.map(packed), faint = colours.map((colour) => packed(colour.map((value, n) => Math.round(0.25 * value + 0.75 * ground[n]))));
  const sx = (width - 2 * edge) / (view.right - view.left), sy = (height - 2 * edge) / (view.top - view.bottom);
  const put = (i, colour) => {
    const left = Math.round(edge + (points.x[i] - view.left) * sx - size / 2), top = Math.round(edge + (view.top - points.y[i]) * sy - size / 2);
    if (left < 0 || top < 0 || left + size >= width || top + size >= height) return;
    for (let row = top * width + left, last = row + size * width; row < last; row += width) pixels.fill(colour, row, row + size);
  };
  const tint = selecting ? faint : strong;
  for (let i = 0; i < of.length; i += 1) put(i, tint[of[i]]);
  for (const i of found) put(i, strong[of[i]]);
  context.putImageData(image, 0, 0);
}

// --- what was selected

async function read(points, chosen, { key }, signal) {
  const by = Map.groupBy(chosen, (i) => points.set[i]), items = new Map();
  await Promise.all([...by].map(async ([set, places]) => {
    const found = await post("items/get", { key, set: points.sets[set] }, { ids: places.map((i) => points.ids[i]) }, signal);
    places.forEach((i, n) => { if (found.items[n]) items.set(i, { ...found.items[n], set: points.sets[set] }); });
  }));
  return chosen.filter((i) => items.has(i)).map((i) => items.get(i));
}

function chosen(points, found, place, signal) {
  const latest = Int32Array.from(found).sort((a, b) => points.times[b] - points.times[a]);
  let read_ = 0;
  const page = async (_last, limit) => {
    const part = [...latest.subarray(read_, read_ + Math.min(limit, 500))];
    read_ += part.length;
    return { items: await read(points, part, place, signal), more: read_ < latest.length };
  };
  return el("section", { class: "card" }, el("h2", {}, `${plural(found.length, "item")} selected`),
    virtualList({ label: "Selected items", total: found.length, page, row: (item) => itemRow(item, { ...place, set: item.set }), nothing: empty("They are gone.", "Draw the map again.") }));
}
