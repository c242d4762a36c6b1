// What the pages ask of the server: the same addresses that programs ask.

const BASE = new URL("../v1/", import.meta.url);
const TOKEN = "alveus-token", SPACE = "alveus-space";
let space;

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

// Of this tab alone, until it is closed.
export const setSpace = (name) => sessionStorage.setItem(SPACE, name);
export const setToken = (token) => sessionStorage.setItem(TOKEN, token);
export const hasToken = () => token() !== null;

const token = () => sessionStorage.getItem(TOKEN);

// Where the reader is: by it "yesterday" in a question is counted.
function offset() {
  const minutes = -new Date().getTimezoneOffset(), two = (number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.trunc(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

function headers(more = {}) {
  const by = token() ? { Authorization: `Bearer ${token()}` } : {};
  return { "Alveus-Timezone": offset(), ...more, ...by };
}

function place(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries({ space, ...query })) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of [value].flat()) url.searchParams.append(name, each);
  }
  return url;
}

// A whole number that JavaScript would round stays as it was written, to be shown and sent back.
const LONG_NUMBER = /[:,[]\s*-?\d{16,}\s*[,}\]]/;
const kept = (_name, value, { source }) => (Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? JSON.rawJSON(source) : value);
const parsed = (text) => (JSON.rawJSON && LONG_NUMBER.test(text) ? JSON.parse(text, kept) : JSON.parse(text));

async function ask(method, path, query, body, signal, more = {}) {
  const by = token(), sent = body === undefined ? {} : { body: JSON.stringify(body), headers: headers({ "Content-Type": "application/json", ...more }) };
  let answer;
  try {
    answer = await fetch(place(path, query), { method, headers: headers(), signal, ...sent });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  const told = parsed(await answer.text());
  if (answer.status === 401 && by === token()) dispatchEvent(new Event("token-refused"));  // not one of before
  if (!answer.ok) throw new Refused(answer.status, told.error?.message ?? `status ${answer.status}`);
  return told;
}

export const get = (path, query = {}, signal = undefined) => ask("GET", path, query, undefined, signal);
export const post = (path, query, body = {}, signal = undefined) => ask("POST", path, query, body, signal);

// Change something, unless another version is there by now than the one that was seen.
export const patch = (path, query, body, version) => ask("PATCH", path, query, body, undefined, { "If-Match": `"${version}"` });

export async function settings() {
  const told = await (await fetch(new URL("settings", import.meta.url))).json();
  space = sessionStorage.getItem(SPACE) ?? told.space;
  return { ...told, space };
}

// Call *told* with the number of each commit, of whatever process; *state* whether it is followed.
export async function follow(told, state) {
  for (;;) {
    try {
      const answer = await fetch(place("commits"), { headers: headers() });
      if (!answer.ok) throw new Refused(answer.status, "");
      state(true);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) told(Number(line.slice(6)));
      }
    } catch { /* it is tried again below */ }
    state(false);
    await new Promise((wake) => setTimeout(wake, 2_000));
  }
}
