// Runs: what agents did on each input, step by step, and what failed and waits for a decision.

import { get, post } from "./api.js";
import { address, card, count, el, empty, facts, head, inline, link, longText, oneLine, plural, time } from "./dom.js";

const SAY = { waiting: "Waits", active: "Under way", parked: "Failed", done: "Done", discarded: "Discarded", retried: "Tried again" };
const chip = (status) => el("span", { class: `chip ${{ done: "good", parked: "bad" }[status] ?? ""}` }, SAY[status] ?? status);

export async function runsPage({ query, signal, onCommit }) {
  const body = el("div", {}), { status } = query;
  const fill = async () => {
    const list = el("ul", { class: "plain" }), more = el("button", { type: "button", "data-opens": true }, "Earlier runs");
    let before = null;
    const load = async () => {
      const found = await get("runs", { status, before, limit: 100 }, signal);
      list.append(...found.runs.map(row));
      before = found.runs.at(-1)?.run;
      more.hidden = !found.more;
    };
    more.addEventListener("click", load);
    await load();
    body.replaceChildren(card(null, list.children.length ? list : empty(status ? "No run is like that." : "No runs yet.",
      "A run is the work of an agent on one input. Failed ones wait here for a decision."), more));
  };
  await fill();
  onCommit(fill);
  const tab = (name, value) => el("a", { class: "button", href: address("runs", { status: value }), "aria-current": status === value && "true" }, name);
  return [head("Runs"), el("div", { class: "tabs", role: "navigation", "aria-label": "Which runs" }, tab("All", undefined), tab("Failed", "parked"),
    tab("Waiting", "waiting"), tab("Done", "done")), body];
}

const row = (run) => el("li", { class: "hit" },
  el("div", { class: "hit-line" }, el("span", {}, link("run", { run: run.run }, `Run ${count(run.run)}`), " ", chip(run.status), " ",
    el("bdi", {}, oneLine(`${run.agent} · ${run.key}`))), el("span", { class: "small soft" }, time(run.accepted))),
  run.error && el("div", { class: "small soft" }, oneLine(`${run.error.action}: ${run.error.type}: ${run.error.message}`)));

export async function runPage({ query, config, signal, onCommit }) {
  const body = el("div", {});
  const fill = async () => body.replaceChildren(...content(await get("run", { run: query.run }, signal), config));
  await fill();
  onCommit(fill);
  return [el("p", { class: "crumbs" }, link("runs", {}, "Runs")), head(`Run ${query.run}`), body];
}

function content(run, { writes }) {
  return [
    el("div", { class: "grid" },
      card(null, facts([["State", chip(run.status)], ["Agent", el("bdi", {}, oneLine(run.agent))], ["Key", link("key", { key: run.key }, el("bdi", {}, oneLine(run.key)))],
        ["Input", longText(inline(run.input))], ["Accepted", time(run.accepted)], ["Begun", run.begun && time(run.begun)], ["Ended", run.ended && time(run.ended)],
        ["Instead of", run.origin && link("run", { run: run.origin }, `Run ${run.origin}`)]].filter(([, value]) => value))),
      run.error ? failure(run, writes) : card("Put out", run.outputs.length ? run.outputs.map(said) : empty("Nothing.", "Its actions sent nothing to the world."))),
    card("Step by step", el("ol", { class: "steps" },
      ...run.steps.map((done) => step(done, run.key)),
      run.open && el("li", { class: "waits" }, el("b", {}, "Not done yet"), ...run.open.calls.map(call)),
      run.error && el("li", { class: "bad" }, el("b", {}, oneLine(run.error.action)), el("div", {}, oneLine(`${run.error.type}: ${run.error.message}`))),
      !run.steps.length && !run.open && !run.error && el("li", { class: "waits" }, "No action is done yet."))),
  ];
}

function failure(run, writes) {
  const out = el("div", { role: "status" });
  const decide = (how, says) => async () => {
    try { await post(`runs/${how}`, { run: run.run }); out.replaceChildren(says); }
    catch (error) { out.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  return card("Why it failed", el("p", {}, oneLine(`${run.error.type}: ${run.error.message}`)),
    el("details", {}, el("summary", {}, "Where in the code"), el("pre", { class: "text", tabindex: "0" }, run.error.traceback ?? "")),
    run.status === "parked" && (writes ? el("p", { class: "row" },
      el("button", { type: "button", onclick: decide("retry", "It will be tried again by whoever serves its agent.") }, "Retry"),
      el("button", { type: "button", class: "bad", onclick: decide("discard", "It was discarded.") }, "Discard"))
      : el("p", { class: "soft small" }, "To retry or discard from here, start the pages with alveus ui --write.")), out);
}

function step(done, key) {
  const { read, wrote } = done;
  const rows = [
    ["Read", [...read.short_term, ...read.sensory].map(value)],
    ["Items read", read.items.map((each) => el("div", {}, item(each, key)))],
    ["Searches", read.searches.map((search) => el("div", {}, `“${oneLine(search.query, 120)}” found ${plural(search.hits.length, "item")}`))],
    ["Values set", [...wrote.short_term, ...(wrote.sensory ?? [])].map(value)],
    ["Items changed", wrote.items.map((each) => el("div", {}, `${each.change} `, item(each, key)))],
    ["Calls made once", done.calls.map(call)],
    ["Sent", done.sent.map((event) => el("div", {}, `${event.event} → ${event.sets_off.join(", ") || "nobody"}`))],
    ["Put out", done.outputs.map(said)],
  ].filter(([, found]) => found.length);
  return el("li", {}, el("b", {}, oneLine(done.action)), el("span", { class: "small soft" }, " · ", link("audit", { commit: done.commit }, `commit ${count(done.commit)}`), " · ", time(done.time)),
    done.skipped && el("div", {}, el("span", { class: "chip bad" }, "Failed, and was passed over")), rows.length ? facts(rows) : el("div", { class: "soft" }, "No changes."));
}

const name = (path) => (typeof path === "string" ? path || "(all)" : path.join(" › "));
const value = (each) => el("div", {}, el("bdi", {}, oneLine(name(each.path))), each.removed ? " removed" : each.missing ? " (not there)" : "value" in each ? `: ${oneLine(inline(each.value))}` : "");
const item = (each, key) => link("item", { key: each.knowledge ? null : key, set: each.set, id: each.id }, oneLine(each.text ?? each.id, 120));
const said = (event) => el("div", {}, el("bdi", {}, oneLine(inline(event.data), 600)));
const call = (each) => el("div", {}, oneLine(each.function), ` → ${oneLine(inline(each.result ?? each.error ?? null))}`,
  each.attempts > 1 && el("span", { class: "chip" }, `${plural(each.attempts, "try", "tries")}`), each.status === "pending" && el("span", { class: "chip" }, "no answer yet"));
