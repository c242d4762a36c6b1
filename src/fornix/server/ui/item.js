// Item: what it says, every version against the one before, what it was made of, and forgetting it.

import { get, post } from "./api.js";
import { card, count, el, empty, facts, head, inline, link, longText, oneLine, plural, said, time, visible } from "./dom.js";

export async function itemPage({ query, config, signal, onCommit }) {
  const { key, set, id } = query, place = { key, set, id };
  const body = el("div", {});
  const fill = async () => body.replaceChildren(...await content(place, config, signal));
  await fill();
  onCommit(fill);
  return [
    el("p", { class: "crumbs" }, link("keys", {}, "Keys"), " / ", link("key", { key }, el("bdi", {}, oneLine(key ?? "Knowledge"))), " / ", link("key", { key, set }, el("bdi", {}, oneLine(set)))),
    head("Item", el("code", { class: "soft" }, oneLine(id))), body,
  ];
}

async function content(place, config, signal) {
  const { versions } = await get("item/history", place, signal);
  if (!versions.length) return [card(null, empty("There is no such item.", "It was forgotten, or never was."))];
  const item = versions.at(-1), lineage = await get("item/lineage", place, signal);
  return [
    card(null, item.retired ? el("p", {}, el("span", { class: "chip bad" }, item.compacted ? "Compacted" : "Deleted"), " Kept for history, found by no search.") : "",
      longText(said(item))),
    el("div", { class: "grid" }, card("What is known of it", details(item)),
      card("Made from", lineage.nodes.length > 1 ? tree(lineage, 0, place.key, new Set()) : empty("Nothing else.", "It was added as it is; a summary shows here what it sums up."))),
    card(plural(versions.length, "version"), versions.map((version, at) => versionView(version, versions[at - 1])).reverse()),
    forgetting(place, config),
  ];
}

const details = (item) => facts([
  ["Time", item.time && time(item.time)], ["Added", time(item.created)], ["Changed", item.updated !== item.created && time(item.updated)],
  ["Last read", item.accessed && time(item.accessed)], ["Speaker", item.speaker && el("bdi", {}, oneLine(item.speaker))], ["Role", item.role],
  ["Session", item.session && el("bdi", {}, oneLine(item.session))], ["Importance", item.importance || null], ["Expires", item.expire_at && time(item.expire_at)],
  ["Holds from", item.valid_from && time(item.valid_from)], ["Holds until", item.valid_to && time(item.valid_to)],
  ...Object.entries(item.metadata).map(([name, value]) => [oneLine(name, 60), el("bdi", {}, oneLine(inline(value)))]),
].filter(([, value]) => value !== false));

// --- versions

function versionView(version, before) {
  const title = el("h3", {}, `Version ${version.version}, `, time(version.updated ?? version.created));
  if (!before) return el("div", {}, title, longText(said(version)));
  return el("div", {}, title, el("p", { class: "text diff" }, ...difference(said(before), said(version))));
}

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

// --- lineage

function tree(lineage, at, key, drawn) {
  const node = lineage.nodes[at], again = drawn.has(at);
  drawn.add(at);
  const says = node.erased ? el("span", { class: "soft" }, "(forgotten)")
    : at === 0 ? el("b", {}, "This item") : link("item", { key, set: node.set, id: node.id }, oneLine(node.text ?? "(no text)", 160));
  const below = again ? [] : lineage.edges.filter(([derived]) => derived === at).map(([, source]) => source);
  return el("ul", { class: "lineage" }, el("li", {}, says, node.retired && at ? el("span", { class: "chip" }, "retired") : "",
    ...below.map((source) => tree(lineage, source, key, drawn)), lineage.cut && at === 0 ? el("p", { class: "soft" }, "… and more") : ""));
}

// --- forgetting

function forgetting({ key, set, id }, { writes }) {
  const box = el("section", { class: "card" }, el("h2", {}, "Forget"));
  const says = el("p", { class: "soft" }, "Erases every version, and what was derived from it, for good. The receipt says what keeps it elsewhere.");
  if (!writes || !key) {
    box.append(says, el("p", { class: "soft" }, key ? "These pages only read. To forget from here, start them with fornix ui --write." : "Knowledge is forgotten on the command line."));
    return box;
  }
  const out = el("div", { role: "status" });
  const act = async (dry) => {
    try {
      const receipt = await post("forget", { key, set }, { ids: [id], dry_run: dry });
      out.replaceChildren(receiptView(receipt, { dry }));
      if (dry) out.append(el("button", { type: "button", class: "bad", onclick: () => act(false) }, "Forget for good"));
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
