// The frame: which page is shown, the keyboard, the scheme, and the commits that are followed.

import { follow, get, hasToken, setSpace, setToken, settings } from "./api.js";
import { address, count, el, empty, field } from "./dom.js";
import { auditPage } from "./audit.js";
import { compactionsPage } from "./compactions.js";
import { itemPage } from "./item.js";
import { keyPage, keysPage } from "./key.js";
import { mapPage } from "./map.js";
import { overviewPage } from "./overview.js";
import { promptPage } from "./prompt.js";
import { runPage, runsPage } from "./runs.js";
import { searchPage } from "./search.js";

const PAGES = {
  "": { title: "Overview", show: overviewPage, press: "o" },
  keys: { title: "Keys", show: keysPage, press: "k" },
  search: { title: "Search", show: searchPage, press: "s" },
  map: { title: "Map", show: mapPage, press: "m" },
  prompt: { title: "Prompt", show: promptPage, press: "p" },
  runs: { title: "Runs", show: runsPage, press: "r" },
  run: { title: "Run", show: runPage, under: "runs" },
  audit: { title: "Audit", show: auditPage, press: "a" },
  key: { title: "Key", show: keyPage, under: "keys" },
  compactions: { title: "Compactions", show: compactionsPage, under: "keys" },
  item: { title: "Item", show: itemPage, under: "keys" },
};

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
const live = document.getElementById("live");
const theme = document.getElementById("theme");
let config = { writes: false, needs_token: false };
let shown = { leave: null, changed: null };

// --- pages

async function show() {
  const [name, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  const query = Object.fromEntries(new URLSearchParams(text));
  shown.leave?.abort();
  const leave = new AbortController();
  const own = (shown = { leave, changed: null, always: false, opened: [], newer: el("div", { role: "status" }) });
  for (const link of document.querySelectorAll("#nav a")) {
    const current = link.dataset.page === (page?.under ?? name);
    if (current) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    if (current) link.scrollIntoView({ block: "nearest", inline: "center" });
  }
  document.title = `${page?.title ?? "Not found"} · alveus`;
  if (!page) {
    main.removeAttribute("aria-busy");
    main.replaceChildren(empty("There is no such page.", "The menu above leads to those there are."));
    return;
  }
  main.setAttribute("aria-busy", "true");
  try {
    const made = await page.show({ query, config, signal: leave.signal,
      onCommit: (act, { always = false } = {}) => Object.assign(own, { changed: act, always }) });
    if (leave.signal.aborted) return;
    main.replaceChildren(own.newer, ...made);
    main.querySelector("[data-focus]")?.focus();
  } catch (error) {
    if (error.name === "AbortError" || leave.signal.aborted) return;
    main.replaceChildren(fault(error.message));
  } finally {
    if (shown === own) main.removeAttribute("aria-busy");
  }
}

const fault = (says) => el("div", { class: "fault", role: "alert" }, says);

const NO_TOKEN = "This server has no such token.";

let asking = null;  // the form that waits for a token

function askForToken() {
  // Whichever part of a page was refused: none of it is shown. Several may be: what is typed stays.
  shown.leave?.abort();
  if (asking?.isConnected) return;
  main.replaceChildren(asking = tokenForm(hasToken() && NO_TOKEN));
  main.querySelector("[data-focus]").focus();
}

function tokenForm(refusal) {
  const input = el("input", { type: "password", name: "token", autocomplete: "off", required: true, "data-focus": true });
  const says = el("div", {}, refusal && fault(refusal));
  const enter = async (event) => {
    event.preventDefault();
    const token = input.value.trim();
    if (!/^[!-~]+$/.test(token)) { says.replaceChildren(fault(NO_TOKEN)); return; }  // no header can carry it
    says.replaceChildren();
    asking = null;
    setToken(token);
    const { spaces, status } = await get("spaces").catch(({ status }) => ({ spaces: [], status }));
    if (status === 401) return;  // it is asked for again
    if (!spaces.length || spaces.includes(config.space)) { show(); return; }
    setSpace(spaces[0]);  // the only one that the token is for
    location.reload();
  };
  return el("section", { class: "card" }, el("h1", {}, "A token is needed"),
    el("p", { class: "soft" }, "Whoever runs this server makes one with alveus token new. It is kept until this tab is closed."),
    says, el("form", { onsubmit: enter }, field("Token", input, "wide"), el("button", { class: "main" }, "Go on")));
}

// --- the frame

function menu() {
  document.getElementById("nav").replaceChildren(...Object.entries(PAGES).filter(([, page]) => page.press)
    .map(([name, page]) => el("a", { href: address(name), "data-page": name }, page.title)));
}

const SCHEME = "alveus-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function paint() {
  const chosen = localStorage.getItem(SCHEME) ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  theme.textContent = chosen === "dark" ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${chosen === "dark" ? "light" : "dark"} colours`);
}

function switchTheme() {
  localStorage.setItem(SCHEME, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
}

function help() {
  const rows = [
    ...Object.values(PAGES).filter((page) => page.press).map((page) => [`g ${page.press}`, page.title]),
    ["/", "Search"], ["↑ ↓", "Move through a list"], ["Esc", "Leave a field"], ["t", "Light or dark"], ["?", "This list"],
  ];
  dialog.replaceChildren(el("h2", { id: "dialog-title" }, "Keyboard"),
    el("dl", {}, rows.flatMap(([press, does]) => [el("dt", {}, el("kbd", {}, press)), el("dd", {}, does)])),
    el("form", { method: "dialog" }, el("button", { class: "main" }, "Close")));
  dialog.showModal();
}

let going = false;

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key !== "Escape") return;
    main.focus({ preventScroll: true });
    event.preventDefault();
  }
  const page = Object.entries(PAGES).find(([, each]) => each.press === event.key);
  if (going && page) location.hash = address(page[0]);
  else if (event.key === "/") location.hash = address("search");
  else if (event.key === "?") help();
  else if (event.key === "t") switchTheme();
  else { going = event.key === "g"; return; }
  going = false;
  event.preventDefault();
}

let last = null;

function told(number) {
  live.textContent = `Commit ${count(number)}`;
  if (last !== null && number !== last && shown.changed) {
    if (shown.always || isAtRest(shown)) renew(shown);
    else shown.newer.replaceChildren("There are newer commits. ", el("button", { type: "button", onclick: () => renew(shown) }, "Show them"));
  }
  last = number;
}

function renew({ changed, leave, newer, opened }) {
  newer.replaceChildren();
  opened.length = 0;
  return Promise.resolve(changed()).catch((error) => { if (!leave.signal.aborted) throw error; });
}

// A page in which somebody moved, or opened something, stays as it is until he asks for what is new.
function isAtRest({ opened }) {
  const focus = document.activeElement, moved = (box) => Math.abs(box.scrollTop - (box.matches(".chat") ? box.scrollHeight - box.clientHeight : 0)) >= 8;
  return !opened.some((each) => each.isConnected)
    && !(focus !== main && main.contains(focus) && !focus.matches("input, select, textarea, button"))
    && ![...main.querySelectorAll(".virtual, .chat")].some(moved)
    && ![...main.querySelectorAll(".slider input")].some((slider) => slider.value !== slider.max);
}

function noteOpened({ target }) {
  const pressed = target.closest("summary, [data-opens]");
  if (pressed) shown.opened.push(pressed.parentElement);
}

async function start() {
  paint();
  menu();
  dark.addEventListener("change", paint);
  theme.addEventListener("click", switchTheme);
  document.getElementById("help").addEventListener("click", help);
  document.addEventListener("keydown", pressed);
  main.addEventListener("click", noteOpened, true);
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  addEventListener("token-refused", askForToken);
  addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
  config = await settings();
  show();
  follow(told, (on) => { live.dataset.on = on; if (!on) live.textContent = "Not connected"; });
}

start();
