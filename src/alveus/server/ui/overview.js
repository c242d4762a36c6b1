// Overview: how much is remembered, how it grew, what waits, and whether all is well.

import { get, Refused, setSpace } from "./api.js";
import { address, bytes, card, count, el, empty, facts, head, link, oneLine, plural, svg, time } from "./dom.js";
import { changesOf } from "./audit.js";
import { virtualList } from "./list.js";

export async function overviewPage({ onCommit, signal, config }) {
  const body = el("div", {}), grown = {};
  const fill = async () => body.replaceChildren(...await content(signal, config, grown));
  await fill();
  onCommit(fill);
  return [head("Overview", await spaces(config, signal)), body];
}

async function spaces({ space }, signal) {
  const found = await get("spaces", {}, signal).catch(() => ({ spaces: [] }));
  if (found.spaces.length < 2) return el("p", { class: "soft" }, "Space ", el("bdi", {}, oneLine(space, 60)));
  const choose = el("select", { name: "space" }, found.spaces.map((name) => el("option", { value: name, selected: name === space }, oneLine(name, 60))));
  choose.addEventListener("change", () => { setSpace(choose.value); location.reload(); });
  return el("label", { class: "beside" }, "Space ", choose);
}

const OFTEN_MS = 10_000;

async function growthOf(grown, signal) {
  // It is read from every item, so not anew with each commit of a busy store.
  if (!grown.points || performance.now() - grown.read > OFTEN_MS) Object.assign(grown, await get("growth", {}, signal), { read: performance.now() });
  return grown;
}

async function content(signal, config, grown) {
  let asked;
  try {
    asked = await Promise.all([
      get("stats", {}, signal), growthOf(grown, signal), get("journal", { limit: 8 }, signal),
      get("keys", { limit: 12 }, signal), get("sets", {}, signal),
    ]);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 403) throw error;
    return [el("div", { class: "card" }, empty("This token does not see the whole memory.",
      "It shows single keys and searches; an admin token also shows figures, commits and receipts."))];
  }
  const [stats, growth, journal, keys, sets] = asked;
  const { store } = stats;
  if (!store.commits) {
    return [el("div", { class: "card" }, empty("Nothing is remembered yet.",
      "As soon as a program writes, this page shows it. Try:", 'alveus add "Prefers window seats." --key ada'))];
  }
  return [
    el("div", { class: "figures" }, [
      [count(store.keys), store.keys === 1 ? "key" : "keys"], [count(store.sets), store.sets === 1 ? "set" : "sets"],
      [count(store.items), store.items === 1 ? "item" : "items"], [count(store.commits), store.commits === 1 ? "commit" : "commits"],
      [bytes(store.file_bytes + store.wal_bytes), "on disk"],
    ].map(([figure, of]) => el("div", { class: "figure" }, el("b", {}, figure), el("span", {}, of)))),
    el("div", { class: "grid" },
      card("Growth", chart(growth.points, "items", "item"), chart(growth.points, "commits", "commit")),
      card("Health", health(stats))),
    el("div", { class: "grid" },
      card("Keys", keyLinks(keys)),
      card("Latest commits", el("ul", { class: "plain" }, journal.commits.map(recent)),
        el("p", { class: "small" }, link("audit", {}, "All commits")))),
    sets.sets.length > 0 && card("Knowledge, shared by all keys", setLinks(sets.sets, null)),
  ].filter(Boolean);
}

const recent = (done) => el("li", { class: "commit" },
  link("audit", { commit: done.number }, `No. ${count(done.number)}`),
  el("span", {}, el("bdi", {}, oneLine(done.key ?? "knowledge")), ` · ${changesOf(done)}`), el("span", { class: "small soft" }, time(done.time)));

function health(stats) {
  const { store } = stats;
  const waits = stats.pending
    ? `${plural(stats.pending, "item")}, the oldest for ${Math.round(stats.queue_age_s)} s` : "nothing";
  const parked = store.runs_parked
    ? el("a", { class: "chip bad", href: address("runs", { status: "parked" }) }, `${plural(store.runs_parked, "run")} to be decided`) : "none";
  return facts([
    ["State", stats.failure ? el("span", { class: "chip bad" }, stats.failure) : el("span", { class: "chip good" }, "All is well")],
    ["Waits for search", waits],
    ["Runs under way", store.runs_waiting ? count(store.runs_waiting) : "none"],
    ["Failed runs", parked],
    ["Main file", bytes(store.file_bytes)],
    ["Log of recent writes", bytes(store.wal_bytes)],
    ["Meaning is found by", stats.embedder],
  ]);
}

const SHORT_MS = 600_000;

function chart(points, name, one) {
  const most = points.at(-1)?.[name] ?? 0, title = el("div", { class: "small soft" }, `${plural(most, one)}${name === "items" ? ", by when they were added" : ""}`);
  if (points.length < 2 || !most) return name === "items" ? "" : empty("One moment so far.", "A curve appears with the next commits.");
  const times = points.map((point) => Date.parse(point.time));
  const within = times.at(-1) - times[0] < SHORT_MS;
  const x = (i) => (1000 * (times[i] - times[0])) / (times.at(-1) - times[0]);
  const y = (point) => 98 - (94 * point[name]) / most;
  const line = points.map((point, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(point).toFixed(1)}`).join("");
  const says = `${name === "items" ? "Items" : "Commits"} over time: ${count(points[0][name])} at first, ${count(most)} now`;
  return el("div", { class: "chart" }, title,
    svg("svg", { class: `growth ${name}`, viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": says },
      svg("path", { class: "area", d: `${line}L1000 100L0 100Z` }), svg("path", { class: "line", d: line })),
    name === "items" ? "" : el("div", { class: "axis" }, time(points[0].time, within), time(points.at(-1).time, within)));
}

export function keyLinks({ keys, more }) {
  if (!keys.length) return empty("No keys yet.", "A key is a user, a session or a device.");
  return el("div", {}, el("ul", { class: "plain links" }, keys.map((key) => el("li", {}, link("key", { key }, el("bdi", {}, oneLine(key)))))),
    more && el("p", { class: "small" }, link("keys", {}, "All keys")));
}

const MOST_LINKS = 100;

export function setLinks(sets, key) {
  const row = ({ name, items }) => link("key", { key, set: name }, el("bdi", { class: "cut" }, oneLine(name)), el("span", {}, plural(items, "item")));
  if (sets.length <= MOST_LINKS) return el("ul", { class: "plain links" }, sets.map((each) => el("li", {}, row(each))));
  return virtualList({ label: "Sets", page: () => ({ items: sets, more: false }), row, total: sets.length });
}
