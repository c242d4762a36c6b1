// Item: what it says, every version against the one before, what it was made of, and forgetting it.

import { get, patch, post } from "./api.js";
import { lineageGraph } from "./lineage.js";
import { card, count, el, empty, facts, fieldsOf, head, inline, link, longText, oneLine, plural, said, time, visible } from "./dom.js";

export async function itemPage({ query, config, signal, onCommit }) {
  const { key, set, id } = query, place = { key, set, id };
  const body = el("div", {});
  // What would be erased, and the receipt, stay until somebody has read them.
  const fill = async () => {
    const made = await content(place, config, signal, (receipt) => body.replaceChildren(receipt));
    if (!body.querySelector("[data-receipt]")) body.replaceChildren(...made);
  };
  await fill();
  onCommit(fill);
  return [
    el("p", { class: "crumbs" }, link("keys", {}, "Keys"), " / ", link("key", { key }, el("bdi", {}, oneLine(key ?? "Knowledge"))), " / ", link("key", { key, set }, el("bdi", {}, oneLine(set)))),
    head("Item", el("code", { class: "soft" }, oneLine(id))), body,
  ];
}

async function content(place, config, signal, erased) {
  const { versions } = await get("item/history", place, signal);
  if (!versions.length) return [card(null, empty("There is no such item.", "It was forgotten, or never was."))];
  const item = versions.at(-1);
  const [lineage, read, compacted] = await Promise.all([get("item/relatives", place, signal), get("item/readings", place, signal), compactionOf(item, place, config, signal)]);
  return [
    card(null, item.retired ? el("p", {}, el("span", { class: "chip bad" }, lineage.nodes.some((node) => node.depth === -1 && node.compacted && !node.retired) ? "Replaced by a summary" : "Deleted"), " Kept for history, found by no search.") : "",
      longText(said(item)), compacted),
    card("Lineage", lineage.nodes.length > 1 || lineage.foreign ? lineageGraph(lineage, place)
      : empty("It stands alone.", "A summary shows here what it sums up, and an item what was made of it.")),
    el("div", { class: "grid" }, card("What is known of it", details(item)), card("Where it was read", readings(read.readings))),
    card(plural(versions.length, "version"), versions.map((version, at) => versionView(version, versions[at - 1], version !== item && !item.retired && config.writes && (() => bringBack(place, version, item)))).reverse()),
    forgetting(place, config, erased),
  ];
}

const isShown = ({ text, value }) => text === null || text === value || text === value?.content || text === value?.text;

const details = (item) => facts([
  ["Value", !isShown(item) && el("bdi", {}, oneLine(inline(item.value), 2_000))],
  ["Time", item.time && time(item.time)], ["Added", time(item.created)], ["Changed", item.updated !== item.created && time(item.updated)],
  ["Last read", item.accessed && time(item.accessed)], ["Speaker", item.speaker && el("bdi", {}, oneLine(item.speaker))], ["Role", item.role],
  ["Session", item.session && el("bdi", {}, oneLine(item.session))], ["Importance", item.importance || null], ["Expires", item.expire_at && time(item.expire_at)],
  ["Holds from", item.valid_from && time(item.valid_from)], ["Holds until", item.valid_to && time(item.valid_to)],
  ...fieldsOf(item.metadata).map(([name, value]) => [oneLine(name, 60), el("bdi", {}, oneLine(inline(value)))]),
].filter(([, value]) => value !== false));

// --- versions

function versionView(version, before, back) {
  const out = el("span", { role: "status" });
  const press = async () => {
    try { await back(); } catch (error) { out.replaceChildren(el("span", { class: "fault" }, error.message)); }
  };
  const title = el("h3", {}, `Version ${version.version}, `, time(version.updated ?? version.created), " ",
    back && el("button", { type: "button", onclick: press, "aria-label": `Bring back version ${version.version}` }, "Bring back"), out);
  if (!before) return el("div", {}, title, longText(said(version)));
  return el("div", {}, title, el("p", { class: "text diff" }, ...difference(said(before), said(version))));
}

// The older version becomes a new one; nothing is lost by it, and it can be undone the same way.
function bringBack(place, version, now) {
  const names = ["value", "metadata", "importance", "speaker", "role", "session", "time", "expire_at", "valid_from", "valid_to"];
  const texts = version.text?.split(SEVERAL), text = texts?.length > 1 ? { texts } : version.text === version.value ? {} : { text: version.text };
  return patch("item", place, { ...Object.fromEntries(names.map((name) => [name, version[name]])), ...text }, now.version);
}

const SEVERAL = "\u001e\n";

const MOST_WORDS = 600;

function difference(before, after) {
  // The longest common subsequence of words; of long texts, only that one replaced the other.
  const [a, b] = [before, after].map((text) => text.match(/\s+|[^\s]+/g) ?? []);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return [el("del", {}, oneLine(before)), " ", el("ins", {}, oneLine(after))];
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const out = [];
  const put = (kind, word) => { if (out.at(-1)?.kind === kind) out.at(-1).text += word; else out.push({ kind, text: word }); };
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { put("span", a[i]); i += 1; j += 1; }
    else if (j >= b.length || (i < a.length && best[i + 1][j] >= best[i][j + 1])) { put("del", a[i]); i += 1; }
    else { put("ins", b[j]); j += 1; }
  }
  return out.map(({ kind, text }) => el(kind, {}, visible(text)));
}

// --- who read it, and what a compaction made of it

const readings = (found) => found.length ? el("ul", { class: "plain" }, found.map((each) => el("li", { class: "hit" },
  link("run", { run: each.run }, `Run ${count(each.run)}`), " · ", el("bdi", {}, oneLine(`${each.agent}, ${each.action}`, 120)), " · ", el("span", { class: "soft" }, time(each.time)),
  each.queries.map((query) => el("div", { class: "small soft" }, "found by “", el("bdi", {}, oneLine(query, 120)), "”")))))
  : empty("No run looked it up.", "Searches of agents that found it are listed here, of the last runs of its key.");

async function compactionOf(item, { key, set }, { writes }, signal) {
  if (!key || !(item.compacted || item.retired)) return "";
  const { compactions } = await get("compactions", { key, set, limit: 100 }, signal);
  const done = compactions.find((each) => each.added.includes(item.id) && each.undone === null);
  const all = link("compactions", { key, set }, "Compactions of this set");
  if (!done) return el("p", { class: "small" }, all);
  const out = el("div", { role: "status" });
  const undo = async () => {
    try { await post("compactions/undo", { key, set, id: done.id }); out.replaceChildren("Undone: what it stood for is back."); }
    catch (error) { out.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  return el("div", {}, el("p", {}, `It stands for ${plural(done.retired, "item")} since `, time(done.time), ". ", all), writes ? el("button", { type: "button", onclick: undo }, "Undo the compaction") : "", out);
}

// --- forgetting

function forgetting({ key, set, id }, { writes }, erased) {
  const box = el("section", { class: "card" }, el("h2", {}, "Forget"));
  const says = el("p", { class: "soft" }, "Erases every version, and what was derived from it, for good. The receipt says what keeps it elsewhere.");
  if (!writes || !key) {
    box.append(says, el("p", { class: "soft" }, key ? "These pages only read. To forget from here, start them with alveus ui --write." : "Knowledge is forgotten on the command line."));
    return box;
  }
  const out = el("div", { role: "status" });
  const act = async (dry) => {
    try {
      const receipt = await post("forget", { key, set }, { ids: [id], dry_run: dry });
      if (dry) out.replaceChildren(el("div", { "data-receipt": true }, receiptView(receipt, { dry }), el("button", { type: "button", class: "bad", onclick: () => act(false) }, "Forget for good")));
      else erased(el("section", { class: "card", role: "status", "data-receipt": true }, receiptView(receipt, { heading: "h2" })));
    } catch (error) { out.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  box.append(says, el("button", { type: "button", class: "bad", onclick: () => act(true) }, "Forget this item …"), out);
  return box;
}

export function receiptView(receipt, { dry = false, heading = "h3" } = {}) {
  const counts = Object.entries(receipt.counts);
  return el("div", {}, el(heading, {}, dry ? "What would be erased" : "Receipt"), facts([
    ["Erased", counts.length ? counts.map(([kind, number]) => plural(number, kind.replaceAll("_", " ").replace(/s$/, ""))).join(", ") : "nothing"],
    ["Derived items among them", receipt.derived ? count(receipt.derived) : null], ["When", time(receipt.time)],
    ["State", dry ? null : receipt.state === "scrubbed" ? "Gone from every file of the store" : "Gone from every read; files still hold it"],
    ["In the way", receipt.blocked_by?.length ? receipt.blocked_by.join("; ") : null], ["Number", dry ? null : el("code", {}, receipt.id)],
  ]));
}
