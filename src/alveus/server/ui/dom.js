// Elements, made without markup: every text becomes a text node, whatever it holds.

export function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag, given = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

export const card = (title, ...children) =>
  el("section", { class: "card" }, title && el("h2", {}, title), ...children);

export const empty = (title, says, command) =>
  el("div", { class: "empty" }, el("strong", {}, title), says, command && el("div", {}, el("code", {}, command)));

export const facts = (rows) =>
  el("dl", { class: "facts" }, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

export const head = (title, ...aside) =>
  el("div", { class: "head" }, el("h1", {}, el("bdi", {}, oneLine(title))), ...aside);

export const field = (label, control, wide) =>
  el("label", { class: wide }, el("span", { class: "small soft" }, label), control);

export const link = (page, query, ...children) => el("a", { href: address(page, query) }, ...children);

export function address(page, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${page}${text ? `?${text}` : ""}`;
}

// Names of sets as somebody wrote them; one that a link gave may hold commas itself.
export const setNames = (text, given) => (text === given ? [text] : text.split(",").map((name) => name.trim())).filter(Boolean);

// --- what is shown

const LONG = 4_000;

export function longText(text) {
  if (!text.trim()) return el("p", { class: "soft" }, text ? quoted(text) : "(no text)");
  // A text of a megabyte is cut until somebody asks for all of it.
  const shown = el("p", { class: "text" }, visible(text.slice(0, LONG)));
  if (text.length <= LONG) return shown;
  const more = el("button", { type: "button", "data-opens": true, onclick: () => { shown.textContent = visible(text); more.remove(); } },
    `Show all ${count(text.length)} characters`);
  return el("div", {}, shown, more);
}

export function visible(text) {
  // Marks that change the direction or hide are named, so that a text cannot disguise itself.
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
    (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// What is nothing but spaces would be nothing to see, and no link to press.
const quoted = (text) => visible(JSON.stringify(text.slice(0, LONG)));

export function oneLine(text, most = 300) {
  const start = text.slice(0, most), line = start.replace(/\s+/g, " ").trim();
  return (line || !text ? visible(line) : quoted(start)) + (text.length > most ? " …" : "");
}

export const said = (item) => item.text ?? inline(item.value);

export const inline = (value) => (typeof value === "string" ? value : unmarked(value) ?? JSON.stringify(value));

// Values are as in exports: what JSON lacks is an object of one field; an object of a user that looks like one has one $ more.
const MARKED = { $bytes: (text) => `bytes ${text}`, $float: (text) => text, $int: (text) => BigInt(text.replace("-", "")) * (text.startsWith("-") ? -1n : 1n) };
const markOf = (value) => { const names = Object.keys(value ?? {}); return names.length === 1 && typeof value[names[0]] === "string" && Object.hasOwn(MARKED, names[0]) ? names[0] : null; };
const unmarked = (value) => { const mark = markOf(value); return mark && String(MARKED[mark](value[mark])); };
export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !JSON.isRawJSON?.(value) && !markOf(value);
export const fieldsOf = (value) => {
  const fields = Object.entries(value), looksMarked = fields.length === 1 && typeof fields[0][1] === "string" && /^\$+(bytes|float|int)$/.test(fields[0][0]);
  return looksMarked ? [[fields[0][0].slice(1), fields[0][1]]] : fields;
};

const COUNT = new Intl.NumberFormat("en");
export const count = (number) => COUNT.format(number);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) { number /= 1000; at += 1; }
  return `${at === 0 ? number : number.toFixed(number < 10 ? 1 : 0)} ${units[at]}`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const PRECISE = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

const TO_SECONDS = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function time(iso, seconds = false) {
  // In the reader's zone; the whole of it, with the zone, when the pointer rests on it.
  if (!iso) return "";
  const date = new Date(iso);
  return el("time", { datetime: iso, title: PRECISE.format(date), class: "nowrap" }, (seconds ? TO_SECONDS : FULL).format(date));
}

// --- bars

const PARTS = ["words", "meaning", "session", "previous", "next"];
export const colour = (name, names = PARTS) => `c${names.includes(name) ? names.indexOf(name) % 6 : 5}`;

export function bar(shares, whole, names, tall = false) {
  const made = el("div", { class: tall ? "bar tall" : "bar", "aria-hidden": "true" });
  for (const [name, share] of shares) {
    const piece = el("span", { class: colour(name, names), title: `${name} ${share}` });
    piece.style.width = `${Math.max(0, (100 * share) / whole)}%`;
    made.append(piece);
  }
  return made;
}

export const legend = (shares, names, shown = String) =>
  el("ul", { class: "legend" }, shares.map(([name, share]) =>
    el("li", {}, el("i", { class: colour(name, names) }), `${name} ${shown(share)}`)));
