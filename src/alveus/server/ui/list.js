// A list of any length: only the rows in sight are elements, and pages are read as they come near.

import { el, empty } from "./dom.js";

const ROW = 44, BEYOND = 8, FIRST_PAGE = 100, MOST = 1_000;

export function virtualList({ label, page, row, total, nothing }) {
  const rows = el("ul", { class: "virtual-rows" });
  const box = el("div", { class: "virtual", role: "region", "aria-label": label, tabindex: "0" }, rows);
  const found = [];
  let more = true, reading = false, size = FIRST_PAGE;

  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - BEYOND);
    const last = Math.min(found.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + BEYOND);
    const focused = rows.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    rows.replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, i) => line(first + i)));
    if (focused !== null) at(focused)?.focus({ preventScroll: true });
    if (more && !reading && last > found.length - 60) read();
  };
  const line = (place) => {
    const made = row(found[place]);
    made.dataset.at = place;
    const item = el("li", { "aria-posinset": place + 1, "aria-setsize": total ?? -1 }, made);
    item.style.top = `${place * ROW}px`;
    return item;
  };
  const at = (place) => rows.querySelector(`[data-at="${place}"]`);
  const read = async () => {
    reading = true;
    try {
      const got = await page(found.at(-1), size);
      found.push(...got.items);
      more = got.more;
      size = Math.min(MOST, size * 2);
    } catch (error) {
      more = false;
      box.replaceWith(el("div", { class: "fault", role: "alert" }, error.message));
    } finally {
      reading = false;
    }
    rows.style.height = `${found.length * ROW}px`;
    if (!found.length && !more) box.replaceWith(nothing ?? empty("Nothing here yet.", ""));
    else draw();
  };
  box.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = Number(document.activeElement.dataset.at ?? (step > 0 ? -1 : 0));
    const next = Math.min(Math.max(0, now + step), found.length - 1);
    if ((next + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = (next + 1) * ROW - box.clientHeight;
    if (next * ROW < box.scrollTop) box.scrollTop = next * ROW;
    draw();
    at(next)?.focus({ preventScroll: true });
  });
  new ResizeObserver(draw).observe(box);
  box.ready = read();
  return box;
}
