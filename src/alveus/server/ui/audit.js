// Audit: what every commit changed, what was forgotten, and what is held back.

import { get, post, Refused } from "./api.js";
import { address, card, count, el, empty, facts, head, link, longText, oneLine, plural, said, time } from "./dom.js";
import { receiptView } from "./item.js";

const TABS = { commits: "Commits", receipts: "Forgotten", quarantine: "Held back" };

export async function auditPage({ query, config, signal, onCommit }) {
  const tab = Object.hasOwn(TABS, query.tab ?? "") ? query.tab : "commits", body = el("div", {});
  const show = { commits: commitsTab, receipts: receiptsTab, quarantine: quarantineTab }[tab];
  const fill = async () => body.replaceChildren(await show(query, config, signal));
  await fill();
  if (!query.commit) onCommit(fill);
  return [head("Audit"), el("div", { class: "tabs", role: "navigation", "aria-label": "Parts of the audit" }, Object.entries(TABS).map(([name, title]) =>
    el("a", { class: "button", href: address("audit", { tab: name }), "aria-current": name === tab && "true" }, title))), body];
}

export function changesOf(done) {
  const told = [
    [done.values_set, "value set", "values set"], [done.values_removed, "value removed", "values removed"],
    [done.items_written, "item written", "items written"], [done.items_removed, "item removed", "items removed"],
    [done.compactions, "compaction", "compactions"], [done.undone, "compaction undone", "compactions undone"],
  ].filter(([number]) => number).map(([number, one, many]) => plural(number, one, many));
  return told.join(", ") || "no change of memory";
}

async function commitsTab({ commit }, config, signal) {
  const rows = el("div", {}), more = el("button", { type: "button", "data-opens": true }, "Earlier commits");
  let before = commit ? Number(commit) + 1 : null;
  const load = async () => {
    let { commits, next } = await get("journal", { before, limit: commit ? 1 : 20 }, signal);
    for (let tries = 0; !commit && !commits.length && next !== null && tries < 9; tries++) { // all of other spaces
      ({ commits, next } = await get("journal", { before: next, limit: 20 }, signal));
    }
    if (commit && String(commits[0]?.number) !== commit) throw new Refused(404, `This space has no commit ${oneLine(commit, 20)}.`);
    rows.append(...commits.map((done) => commitView(done, Boolean(commit))));
    before = next;
    more.hidden = next === null || Boolean(commit);
  };
  more.addEventListener("click", load);
  await load();
  if (!rows.children.length && before === null) return card(null, empty("No commits yet.", "Each change of the memory is a commit, and is listed here."));
  return card(commit ? `Commit ${count(Number(commit))}` : null, rows, more, commit && el("p", {}, link("audit", {}, "All commits")));
}

function commitView(done, open) {
  const key = done.key ?? undefined;
  const rows = [
    ["Values set", done.values.map((path) => path.join(" › ")).map((path) => el("div", {}, el("bdi", {}, oneLine(path))))],
    ["Values removed", done.values_removed ? count(done.values_removed) : null],
    ["Items", done.items.map(({ kind, set, id, version }) => el("div", {}, kind === "removed" ? "removed " : version > 1 ? "changed " : "added ",
      link("item", { key, set, id }, el("bdi", {}, `${oneLine(set, 60)} / ${oneLine(id, 60)}`))))],
    ["And more", more(done)],
  ].filter(([, value]) => value && value.length !== 0);
  return el("details", { open, class: "hit" }, el("summary", {}, el("span", {}, el("b", { class: "number" }, `No. ${count(done.number)} `),
    el("bdi", {}, oneLine(done.key ?? "knowledge")), ` · ${changesOf(done)}`), el("span", { class: "small soft" }, time(done.time))), facts(rows));
}

function more(done) {
  const values = done.values_set - done.values.length, items = done.items_written + done.items_removed - done.items.length;
  return [values > 0 && plural(values, "value"), items > 0 && plural(items, "item")].filter(Boolean).join(", ");
}

async function receiptsTab(_query, _config, signal) {
  const { receipts } = await get("receipts", {}, signal);
  if (!receipts.length) return card(null, empty("Nothing was forgotten.", "Each forgetting leaves a receipt: numbers and digests, nothing of what was there."));
  return el("div", {}, receipts.map((receipt) => el("section", { class: "card" }, receiptView(receipt, { heading: "h2" }))));
}

async function quarantineTab(query, { writes }, signal) {
  const rows = el("div", {}), more = el("button", { type: "button", "data-opens": true }, "Look through more keys");
  let after = null;
  const load = async () => {
    do {
      const found = await get("quarantine/all", { after }, signal);
      rows.append(...found.held.map((each) => heldView(each, writes)));
      after = found.next;
      if (found.held.length) break;
    } while (after !== null);
    more.hidden = after === null;
  };
  more.addEventListener("click", load);
  await load();
  if (!rows.children.length) return card(null, empty("Nothing is held back.", "Rules of admission may hold back what looks dangerous, until somebody decides."));
  return el("div", {}, rows, more);
}

function heldView({ key, id, set, rule, reason, since, item }, writes) {
  const box = el("section", { class: "card" });
  const decide = (how) => async () => {
    try {
      await post(`quarantine/${how}`, { key, id });
      box.replaceChildren(el("p", { role: "status" }, how === "release" ? "It is in its set now." : "It was discarded."));
    } catch (error) { box.append(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  box.append(longText(said(item)), facts([["Held back by", rule], ["Because", reason], ["Of", el("bdi", {}, oneLine(`${key ?? "knowledge"} / ${set}`))], ["Since", time(since)]]),
    writes ? el("p", { class: "row" }, el("button", { type: "button", onclick: decide("release") }, "Accept"), el("button", { type: "button", class: "bad", onclick: decide("discard") }, "Reject"))
      : el("p", { class: "soft small" }, "To accept or reject from here, start the pages with alveus ui --write."));
  return box;
}
