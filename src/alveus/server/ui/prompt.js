// Prompt: what a model would be sent, where the tokens go, and why each piece is in or out.

import { get, post } from "./api.js";
import { address, bar, card, count, el, empty, field, head, legend, longText, oneLine, time } from "./dom.js";

const PARTS = ["system", "recent", "items", "knowledge", "query", "exact"];
const SAY = { system: "Instructions", recent: "Last exchanges", blocks: "Blocks", profile: "Profile", exact: "Exact memory",
  knowledge: "Knowledge", items: "Items", query: "Question" };

export async function promptPage({ query, signal, onCommit }) {
  const { keys } = await get("keys", { limit: 200 }, signal);
  const text = el("input", { type: "search", name: "query", value: query.q ?? "", "data-focus": true, placeholder: "What would somebody ask?" });
  const key = el("input", { name: "key", value: query.key ?? keys[0] ?? "", list: "keys" });
  const budget = el("input", { type: "number", name: "budget", min: 16, value: query.budget ?? 1000 });
  const out = el("div", { role: "status", "aria-live": "polite" });
  let latest = null, timer = null;
  const run = async () => {
    latest?.abort();
    const own = (latest = new AbortController());
    signal.addEventListener("abort", () => own.abort());
    history.replaceState(null, "", address("prompt", { q: text.value, key: key.value, budget: budget.value }));
    if (!text.value.trim() || !key.value) {
      out.replaceChildren(card(null, empty("Ask as a user would.", "The prompt that a program would send to its model is made, and every piece says why it is there.")));
      return;
    }
    try {
      const made = await post("context", { key: key.value }, { query: text.value, budget_tokens: Number(budget.value) || null }, own.signal);
      out.replaceChildren(...results(made, key.value));
    } catch (error) {
      if (error.name !== "AbortError") out.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message));
    }
  };
  const form = el("form", { oninput: () => { clearTimeout(timer); timer = setTimeout(run, 150); }, onsubmit: (event) => { event.preventDefault(); run(); } },
    field("Question", text, "wide"), field("Key", key), field("Token budget", budget, "short"),
    el("datalist", { id: "keys" }, keys.map((name) => el("option", { value: name }))));
  await run();
  onCommit(run);
  return [head("Prompt"), card(null, form), out];
}

function results(made, key) {
  const shown = made.why.filter((piece) => piece.shown), out = made.why.filter((piece) => !piece.shown);
  const sums = new Map();
  for (const piece of shown) sums.set(piece.part, (sums.get(piece.part) ?? 0) + piece.tokens);
  const told = [...sums].map(([part, tokens]) => [part, tokens]);
  const said = told.reduce((sum, [, tokens]) => sum + tokens, 0);
  if (made.tokens > said) told.push(["framing", made.tokens - said]);
  const whole = Math.max(made.budget_tokens ?? made.tokens, made.tokens, 1);
  const named = told.map(([part, tokens]) => [SAY[part] ?? "Framing", tokens]), names = PARTS.map((part) => SAY[part]);
  return [
    card(`${count(made.tokens)} of ${count(made.budget_tokens ?? made.tokens)} tokens`, bar(named, whole, names, true), legend(named, names, count)),
    el("div", { class: "grid" },
      card("What would be sent", made.messages.map((message) => el("div", { class: "message", tabindex: "0", role: "group", "aria-label": message.role },
        el("div", { class: "small soft" }, message.role), longText(message.content)))),
      el("div", {}, card(`In: ${count(shown.length)}`, pieces(shown, key)),
        card(`Left out: ${count(out.length + made.more)}`, out.length ? pieces(out, key) : empty("Nothing.", "All that was found fits the budget.")))),
  ];
}

const pieces = (found, key) => el("div", {}, found.map((piece) => el("article", { class: "hit" },
  el("div", { class: "hit-line" },
    piece.ids.length && piece.set ? el("a", { class: "clamp text", href: address("item", { key: piece.part === "knowledge" ? null : key, set: piece.set, id: piece.ids[0] }) }, oneLine(piece.text, 400))
      : el("span", { class: "clamp text" }, oneLine(piece.text, 400)),
    el("span", { class: "small soft number nowrap" }, `${count(piece.tokens)} tokens`)),
  el("div", { class: "small soft" }, `${SAY[piece.part] ?? piece.part} · `, el("bdi", {}, oneLine(piece.reason)), piece.time && " · ", piece.time && time(piece.time)))));
