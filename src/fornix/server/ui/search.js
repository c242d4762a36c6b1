// Search: hits while one types, each with the parts that its score is the sum of.

import { get, post } from "./api.js";
import { address, bar, card, el, empty, field, head, legend, oneLine, plural, said, setNames, time } from "./dom.js";

export async function searchPage({ query, signal, onCommit }) {
  const { keys } = await get("keys", { limit: 200 }, signal);
  const input = (given) => el("input", given);
  const text = input({ type: "search", name: "query", value: query.q ?? "", "data-focus": true, placeholder: "What do you look for?" });
  const key = input({ name: "key", value: query.key ?? keys[0] ?? "", list: "keys", placeholder: "empty: knowledge" });
  const sets = input({ name: "sets", value: query.set ?? "", placeholder: "all" });
  const asOf = input({ type: "datetime-local", name: "as_of", value: query.as_of ?? "" });
  const where = input({ name: "where", value: query.where ?? "", placeholder: '{"city": "Lisbon"}' });
  const limit = input({ type: "number", name: "limit", min: 1, max: 100, value: query.limit ?? 10 });
  const out = el("div", { role: "status", "aria-live": "polite" });
  let latest = null, timer = null;

  const run = async () => {
    latest?.abort();
    const own = (latest = new AbortController());
    signal.addEventListener("abort", () => own.abort());
    const place = { key: key.value };
    history.replaceState(null, "", address("search", { q: text.value, key: key.value, set: sets.value, as_of: asOf.value, where: where.value }));
    if (!text.value.trim()) {
      out.replaceChildren(card(null, empty("Ask in your own words.", "Words, meaning, speakers and dates of the question all count; each hit says how much.")));
      return;
    }
    try {
      const found = await post("search", place, {
        query: text.value, limit: Number(limit.value) || 10, sets: sets.value ? setNames(sets.value, query.set) : null,
        where: where.value ? JSON.parse(where.value) : null, as_of: asOf.value ? new Date(asOf.value).toISOString() : null,
      }, own.signal);
      out.replaceChildren(results(found, key.value));
    } catch (error) {
      if (error.name === "AbortError") return;
      const says = error instanceof SyntaxError ? 'The filter is no JSON; it looks like {"city": "Lisbon"}.' : error.message;
      out.replaceChildren(el("div", { class: "fault", role: "alert" }, says));
    }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(run, 120); };
  const form = el("form", { oninput: soon, onsubmit: (event) => { event.preventDefault(); run(); } },
    field("Question", text, "wide"), field("Key", key), field("Sets, with commas", sets), field("As it was then", asOf),
    field("Filter by metadata", where), field("Hits", limit, "short"),
    el("datalist", { id: "keys" }, keys.map((name) => el("option", { value: name }))));
  await run();
  onCommit(run);
  return [head("Search"), card(null, form), out];
}

function results({ hits, partial }, key) {
  if (!hits.length) return card(null, empty("Nothing was found.", "Fewer filters, another key, or other words may help."));
  const best = Math.max(...hits.map((hit) => hit.score), 1e-9);
  return card(plural(hits.length, "hit"),
    partial && el("p", { class: "small soft" }, "Some items wait to be found by meaning; words find them already."),
    el("div", {}, hits.map((hit) => hitView(hit, key, best))));
}

function hitView({ item, score, parts }, key, best) {
  const shares = Object.entries(parts).filter(([, share]) => share > 0).sort((a, b) => b[1] - a[1]);
  return el("article", { class: "hit" },
    el("div", { class: "hit-line" },
      el("a", { class: "clamp text", href: address("item", { key, set: item.set, id: item.id }) }, oneLine(said(item), 600) || "(no text)"),
      el("b", { class: "number", title: "Score" }, score.toFixed(3))),
    bar(shares, best), legend(shares, undefined, (share) => share.toFixed(3)),
    el("div", { class: "small soft" }, el("bdi", {}, oneLine(item.set, 60)), item.speaker && " · ", item.speaker && el("bdi", {}, oneLine(item.speaker, 60)), " · ", time(item.time)));
}
