// Compactions of a set: what stood there before, what stands for it now, and undoing one.

import { get, post } from "./api.js";
import { card, count, el, empty, head, link, oneLine, plural, time } from "./dom.js";

export async function compactionsPage({ query, config, signal, onCommit }) {
  const { key, set } = query, place = { key, set };
  const body = el("div", {});
  const fill = async () => {
    const { compactions } = await get("compactions", { key, set, limit: 100 }, signal);
    body.replaceChildren(card(null, compactions.length ? compactions.map((done, at) => row(done, place, config, at === 0))
      : empty("This set was never compacted.", "A compaction puts fewer items in the place of many; what it replaced stays in history.")));
  };
  await fill();
  onCommit(fill);
  return [el("p", { class: "crumbs" }, link("keys", {}, "Keys"), " / ", link("key", { key }, el("bdi", {}, oneLine(key))), " / ", link("key", place, el("bdi", {}, oneLine(set)))),
    head("Compactions"), body];
}

function row(done, place, config, open) {
  const inside = el("div", {});
  let asked = false;
  const load = async () => {
    if (asked) return;
    asked = true;
    try { inside.replaceChildren(await sides(done, place, config)); }
    catch (error) { inside.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  const box = el("details", { class: "hit", ontoggle: () => box.open && load() },
    el("summary", {}, el("span", {}, el("b", {}, `${plural(done.retired, "item")} became ${count(done.added.length)}`),
      done.undone ? el("span", { class: "chip" }, "undone") : ""), el("span", { class: "small soft" }, time(done.time))), inside);
  box.open = open;
  return box;
}

async function sides(done, place, { writes }) {
  const { before, after, more } = await get("compaction", { ...place, id: done.id });
  const out = el("div", { role: "status" });
  const undo = async () => {
    try {
      const told = await post("compactions/undo", { ...place, id: done.id });
      out.replaceChildren(`${plural(told.restored.length ?? told.restored, "item")} came back.`);
    } catch (error) { out.replaceChildren(el("div", { class: "fault", role: "alert" }, error.message)); }
  };
  return el("div", {}, el("div", { class: "grid" }, side("Before", before, place), side("After", after, place)),
    more ? el("p", { class: "small soft" }, `${plural(more, "item")} more`) : "",
    !done.undone && (writes ? el("button", { type: "button", onclick: undo }, "Undo") : el("p", { class: "soft small" }, "To undo from here, start the pages with alveus ui --write.")), out);
}

const side = (title, items, place) => el("div", {}, el("h2", { class: "part" }, title), items.length
  ? el("ul", { class: "plain links" }, items.map((item) => el("li", {}, link("item", { ...place, id: item.id }, oneLine(item.text ?? item.id, 200)))))
  : el("p", { class: "soft" }, "Nothing."));
