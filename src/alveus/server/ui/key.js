// Key: exact memory as it was after each commit, the sets, and conversations as chat.

import { get } from "./api.js";
import { address, card, count, el, empty, field, fieldsOf, head, inline, isObject, link, longText, oneLine, plural, said, time } from "./dom.js";
import { virtualList } from "./list.js";
import { keyLinks, setLinks } from "./overview.js";

export async function keysPage({ query, signal, onCommit }) {
  const box = el("div", {});
  const prefix = el("input", { type: "search", name: "prefix", value: query.prefix ?? "", placeholder: "Begins with", "data-focus": true });
  const rows = async () => {
    const begins = prefix.value;
    const page = async (last, limit) => {
      const { keys, more } = await get("keys", { prefix: begins, after: last, limit }, signal);
      return { items: keys, more };
    };
    const row = (key) => el("a", { href: address("key", { key }) }, el("span", { class: "cut" }, oneLine(key)));
    const nothing = begins ? empty("No key begins so.", "Letters are told apart by case.") : keyLinks({ keys: [] });
    const made = el("div", {}, virtualList({ label: "Keys", page, row, nothing }));
    await made.firstChild.ready;
    if (begins === prefix.value) box.replaceChildren(made);
  };
  prefix.addEventListener("input", rows);
  prefix.addEventListener("keydown", (event) => {
    const first = event.key === "ArrowDown" && box.querySelector(".virtual-rows a");
    if (first) { event.preventDefault(); first.focus(); }
  });
  await rows();
  onCommit(rows);
  return [head("Keys"), card(null, el("form", { onsubmit: (event) => event.preventDefault() }, field("Find a key", prefix, "wide"))), box];
}

export async function keyPage({ query, signal, onCommit }) {
  const { key, set } = query;
  const parts = el("div", {});
  const follow = async (fill) => { await fill(); onCommit(fill); };
  if (set) await follow(async () => parts.replaceChildren(await setView(key, set, query, signal)));
  else if (key) {
    await follow(async () => {
      const tree = el("section", { class: "card" });
      const [{ sets }, facts] = await Promise.all([get("sets", { key }, signal), learnt(key, signal), fillTree(tree, key, signal)]);
      parts.replaceChildren(el("div", { class: "grid" }, tree, card("Sets", sets.length ? setLinks(sets, key)
        : empty("No sets yet.", "What a program adds to this key is listed here."))), facts);
    });
  } else {
    await follow(async () => {
      const { sets } = await get("sets", {}, signal);
      parts.replaceChildren(card("Sets", sets.length ? setLinks(sets, null) : empty("No knowledge yet.", "It is shared by all keys.")));
    });
  }
  return [
    el("p", { class: "crumbs" }, link("keys", {}, "Keys"), set && " / ", set && link("key", { key }, el("bdi", {}, oneLine(key ?? "Knowledge")))),
    head(set ?? key ?? "Knowledge", el("span", { class: "row small" },
      link("search", { key, set }, "Search here"), link("map", { key, set }, "Map"), key && set && link("compactions", { key, set }, "Compactions"), key && link("prompt", { key }, "Make a prompt"))),
    parts,
  ];
}

// --- exact memory

async function fillTree(box, key, signal) {
  const { commits, more } = await get("exact/commits", { key }, signal);
  if (!commits.length) {
    box.replaceChildren(el("h2", {}, "Exact memory"), empty("No values yet.",
      "Exact memory holds named values, which are read back as they were set.", `alveus set profile.city Lisbon --key …`));
    return;
  }
  const tree = el("div", {}), changes = el("div", {}), when = el("span", { class: "small soft", role: "status" });
  const slider = el("input", { type: "range", min: 0, max: commits.length - 1, value: commits.length - 1, "aria-label": "Moment that is shown" });
  let latest = null;
  const move = async () => {
    latest?.abort();
    const own = (latest = new AbortController());
    const at = Number(slider.value), { number, time: told } = commits[at];
    slider.setAttribute("aria-valuetext", `commit ${number}, ${at + 1} of ${commits.length}`);
    back.disabled = at === 0;
    on.disabled = at === commits.length - 1;
    try {
      const [value, change] = await Promise.all([
        get("exact", { key, as_of: at === commits.length - 1 ? null : number }, own.signal),
        get("exact/changes", { key, since: number - 1, until: number }, own.signal),
      ]);
      const paths = new Set(change.tree.map(({ path }) => JSON.stringify(typeof path === "string" ? path.split(".") : path)));
      when.replaceChildren(`After commit ${count(number)}, `, time(told));
      tree.replaceChildren(branch(value.value, [], paths));
      changes.replaceChildren(el("h3", {}, "What this commit changed"), ...change.tree.map(changeLine),
        change.tree.length ? "" : el("p", { class: "soft" }, "Nothing that is still to be seen."));
    } catch (error) {
      if (error.name !== "AbortError") tree.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message));
    }
  };
  const step = (by) => () => { slider.value = Number(slider.value) + by; move(); };
  const back = el("button", { type: "button", "aria-label": "One commit back", onclick: step(-1) }, "←");
  const on = el("button", { type: "button", "aria-label": "One commit on", onclick: step(1) }, "→");
  slider.addEventListener("input", move);
  await move();
  box.replaceChildren(el("h2", {}, "Exact memory"), el("div", { class: "slider" }, back, slider, on), when,
    more ? el("p", { class: "small soft" }, `The last ${count(commits.length)} commits are here.`) : "", tree, changes);
}

function changeLine({ kind, path, before, after }) {
  const name = typeof path === "string" ? path : path.join(" › ");
  const was = kind !== "added" && el("del", {}, oneLine(inline(before))), is = kind !== "removed" && el("ins", {}, oneLine(inline(after)));
  return el("div", { class: "change" }, el("span", { class: "soft small" }, { added: "Added", removed: "Removed", changed: "Changed" }[kind]),
    el("span", {}, el("bdi", {}, oneLine(name)), " ", was, was && is && " ", is));
}

function branch(value, path, changed) {
  const names = fieldsOf(value);
  if (!names.length) return el("p", { class: "soft" }, "Empty.");
  return el("ul", { class: path.length ? null : "tree" }, names.map(([name, below]) => {
    const place = [...path, name], mark = changed.has(JSON.stringify(place)) ? " changed" : "";
    const label = el("bdi", { class: "name" }, oneLine(name));
    if (isObject(below) && Object.keys(below).length) {
      return el("li", {}, el("details", { open: path.length < 3 }, el("summary", { class: mark.trim() }, label,
        el("span", { class: "soft small" }, ` ${plural(Object.keys(below).length, "name")}`)), branch(below, place, changed)));
    }
    return el("li", { class: `leaf${mark}` }, label, ": ", el("span", { class: "value" }, oneLine(inline(below), 2_000)));
  }));
}

// --- what was learnt

async function learnt(key, signal) {
  const { facts } = await get("facts", { key, limit: 50 }, signal);
  if (!facts.length) return "";
  const [profile, { entities }] = await Promise.all([get("profile", { key }, signal), get("facts/entities", { key }, signal)]);
  const names = Object.entries(entities).sort((a, b) => b[1] - a[1]).slice(0, 100), page = el("div", { role: "status" });
  const about = (name) => async () => {
    try { page.replaceChildren(entityView(await get("about", { key, name }, signal))); }
    catch (error) { page.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  return el("div", {}, el("div", { class: "grid" },
    card("Profile", profile.facts.length ? el("ul", { class: "sentences" }, profile.facts.map((fact) => el("li", {}, el("bdi", {}, oneLine(fact.text)))))
      : empty("Nothing is always told.", "Facts that matter whatever is asked about are listed here.")),
    card("People, places and things", el("div", { class: "row" }, names.map(([name, facts_]) =>
      el("button", { type: "button", class: "small", "data-opens": true, onclick: about(name) }, el("bdi", {}, oneLine(name, 60)), ` ${count(facts_)}`))), page)),
  card("Facts that were learnt", el("ul", { class: "plain" }, facts.map(factLine))));
}

const factLine = (fact) => el("li", { class: "change" }, el("bdi", { class: "soft small" }, oneLine(fact.subject ?? "", 60)), el("bdi", {}, oneLine(fact.text ?? inline(fact))));

function entityView(page) {
  const parts = [["Facts", page.facts], ["Relations", page.relations], ["Mentions", page.mentions], ["What took place", page.timeline], ["No longer so", page.history]];
  return el("div", {}, el("h3", {}, el("bdi", {}, page.names.map((name) => oneLine(name, 60)).join(", "))),
    parts.filter(([, found]) => found.length).map(([title, found]) => el("div", {}, el("div", { class: "small soft" }, title),
      el("ul", { class: "sentences" }, found.map((fact) => el("li", {}, el("bdi", {}, oneLine(fact.text))))))));
}

// --- a set

async function setView(key, set, query, signal) {
  const place = { key, set };
  const [{ sets }, first] = await Promise.all([get("sets", { key }, signal), get("items", { ...place, newest_first: true, limit: 1 }, signal)]);
  const total = sets.find(({ name }) => name === set)?.items ?? 0;
  const spoken = first.items.some((item) => item.role !== null);
  const view = query.view ?? (spoken ? "chat" : "list"), oldest = query.order === "oldest";
  const tab = (name, more, on) => el("a", { class: "button", href: address("key", { ...query, ...more }), "aria-current": on && "true" }, name);
  const page = (last, limit) => get("items", { ...place, newest_first: !oldest, after: last?.id, limit }, signal);
  const nothing = empty("This set is empty.", "Items that were deleted are in their history, not here.");
  const shown = view === "chat" ? await chat(place, signal, nothing)
    : virtualList({ label: `Items of ${set}`, total, page, nothing, row: (item) => itemRow(item, place) });
  const made = el("div", {}, el("div", { class: "row tabs" }, el("span", { class: "soft" }, plural(total, "item")),
    spoken && tab("As a conversation", { view: "chat" }, view === "chat"), spoken && tab("As a list", { view: "list" }, view === "list"),
    view === "list" && tab(oldest ? "Show the newest first" : "Show the oldest first", { order: oldest ? "newest" : "oldest" }, false)), shown);
  await shown.ready;
  return made;
}

export const itemRow = (item, place) => el("a", { href: address("item", { ...place, id: item.id }) },
  el("span", { class: "cut" }, oneLine(said(item), 200) || "(no text)"), el("span", { class: "soft small when" }, time(item.time)));

async function chat(place, signal, nothing) {
  // The end of the conversation is in sight; what was before it comes above, when asked for.
  const box = el("div", { class: "chat", role: "log", "aria-label": "Conversation", tabindex: "0" });
  const load = async (last) => {
    const { items, more } = await get("items", { ...place, newest_first: true, after: last?.id, limit: 60 }, signal);
    const earlier = more && el("button", { type: "button", "data-opens": true, onclick: async () => { earlier.remove(); await load(items.at(-1)); } }, "Earlier messages");
    box.prepend(...(earlier ? [earlier] : []), ...items.map((item) => bubble(item, place)).reverse());
    return items.length;
  };
  if (!await load(null)) return nothing;
  requestAnimationFrame(() => { box.scrollTop = box.scrollHeight; });
  return box;
}

const bubble = (item, place) => el("article", { class: item.role === "user" ? "bubble mine" : "bubble" },
  el("div", { class: "by" }, el("bdi", {}, oneLine(item.speaker ?? item.role ?? "", 60)), link("item", { ...place, id: item.id }, time(item.time))),
  longText(said(item)));
