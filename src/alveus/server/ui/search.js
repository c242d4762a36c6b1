// Search: hits while one types, each with the parts that its score is the sum of; two side by side.

import { get, post } from "./api.js";
import { address, bar, card, el, empty, field, head, legend, oneLine, plural, said, setNames, time } from "./dom.js";

const FIELDS = ["q", "key", "set", "as_of", "where", "limit"];

export async function searchPage({ query, signal, onCommit }) {
  const { keys } = await get("keys", { limit: 200 }, signal);
  const sides = [makeSide(query, "", keys, signal)], body = el("div", {});
  const compare = el("button", { type: "button" });
  const note = () => history.replaceState(null, "", address("search", Object.assign({}, ...sides.map((side) => side.values()))));
  const show = () => { note(); for (const [at, side] of sides.entries()) side.draw(sides[1 - at]?.hits); };
  const arrange = () => {
    const two = sides.length === 2;
    compare.replaceChildren(two ? "Only the first" : "Compare with another");
    body.replaceChildren(el("div", { class: two ? "sides" : "" }, sides.map((side, at) => el("section", two ? { "aria-label": at ? "Second search" : "First search" } : {}, card(null, side.form), side.out))));
  };
  const second = (given) => {
    sides.push(makeSide(given, "2", keys, signal));
    sides[1].changed = show;
    arrange();
    return sides[1].run();
  };
  compare.addEventListener("click", async () => {
    if (sides.length === 2) { sides.pop().stop(); arrange(); show(); return; }
    await second(sides[0].values("2"));
    sides[1].form.elements[0].focus();
  });
  sides[0].changed = show;
  arrange();
  await sides[0].run();
  if (FIELDS.some((name) => `${name}2` in query)) await second(query);
  onCommit(() => Promise.all(sides.map((side) => side.run())));
  return [head("Search", compare), body];
}

function makeSide(query, place, keys, signal) {
  const given = (name) => query[`${name}${place}`];
  const input = (name, more) => el("input", { name, ...more });
  const text = input("query", { type: "search", value: given("q") ?? "", "data-focus": !place, placeholder: "What do you look for?" });
  const key = input("key", { value: given("key") ?? keys[0] ?? "", list: `keys${place}`, placeholder: "empty: knowledge" });
  const sets = input("sets", { value: given("set") ?? "", placeholder: "all, or a, b" });
  const asOf = input("as_of", { type: "datetime-local", value: given("as_of") ?? "" });
  const where = input("where", { value: given("where") ?? "", placeholder: '{"city": "Lisbon"}' });
  const limit = input("limit", { type: "number", min: 1, max: 100, value: given("limit") ?? 10 });
  const out = el("div", { role: "status", "aria-live": "polite" });
  const side = { out, hits: null, changed: () => {} };
  let latest = null, timer = null, found = null;

  side.values = (as = place) => Object.fromEntries([text, key, sets, asOf, where, limit].map((each, at) => [`${FIELDS[at]}${as}`, each.value]));
  side.stop = () => latest?.abort();
  side.draw = (others) => { if (found) out.replaceChildren(results(found, key.value, others)); };
  const say = (...shown) => { found = side.hits = null; out.replaceChildren(...shown); side.changed(); };

  side.run = async () => {
    latest?.abort();
    const own = (latest = new AbortController());
    signal.addEventListener("abort", () => own.abort());
    if (!text.value.trim()) {
      say(card(null, empty("Ask in your own words.", "Words, meaning, speakers and dates of the question all count; each hit says how much.")));
      return;
    }
    try {
      found = await post("search", { key: key.value }, {
        query: text.value, limit: Number(limit.value) || 10, sets: sets.value ? setNames(sets.value, given("set")) : null,
        where: where.value ? JSON.parse(where.value) : null, as_of: asOf.value ? new Date(asOf.value).toISOString() : null,
      }, own.signal);
      side.hits = found.hits.map(({ item }) => nameOf(item, key.value));
      side.changed();
    } catch (error) {
      if (error.name === "AbortError") return;
      say(el("div", { class: "fault", role: "alert" }, error instanceof SyntaxError ? 'The filter is no JSON; it looks like {"city": "Lisbon"}.' : error.message));
    }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(side.run, 120); };
  side.form = el("form", { oninput: soon, onsubmit: (event) => { event.preventDefault(); side.run(); } },
    field("Question", text, "wide"), field("Key", key), field("Sets", sets), field("As it was then", asOf),
    field("Filter by metadata", where), field("Hits", limit, "short"),
    el("datalist", { id: `keys${place}` }, keys.map((name) => el("option", { value: name }))));
  return side;
}

const nameOf = (item, key) => JSON.stringify([key, item.set, item.id]);

function results({ hits, partial, dated }, key, others) {
  if (!hits.length) return card(null, empty("Nothing was found.", "Fewer filters, another key, or other words may help."));
  const best = Math.max(...hits.map((hit) => hit.score), 1e-9);
  return card(plural(hits.length, "hit"),
    dated && el("p", { class: "small soft" }, `The question means ${dated}.`),
    partial && el("p", { class: "small soft" }, "Some items wait to be found by meaning; words find them already."),
    el("div", {}, hits.map((hit, at) => hitView(hit, key, best, others && moved(at, others.indexOf(nameOf(hit.item, key)))))));
}

function moved(here, there) {
  // Where the other search has the same item.
  if (there < 0) return el("span", { class: "chip" }, "only here");
  return el("span", { class: "chip" }, here === there ? "the same place there" : `place ${there + 1} there`);
}

function hitView({ item, score, parts }, key, best, place) {
  const shares = Object.entries(parts).filter(([, share]) => share > 0).sort((a, b) => b[1] - a[1]);
  return el("article", { class: "hit" },
    el("div", { class: "hit-line" },
      el("a", { class: "clamp text", href: address("item", { key, set: item.set, id: item.id }) }, oneLine(said(item), 600) || "(no text)"),
      el("b", { class: "number", title: "Score" }, score.toFixed(3))),
    bar(shares, best), legend(shares, undefined, (share) => share.toFixed(3)),
    el("div", { class: "small soft" }, el("bdi", {}, oneLine(item.set, 60)), item.speaker && " · ", item.speaker && el("bdi", {}, oneLine(item.speaker, 60)), " · ", time(item.time), place && " ", place));
}
