// How a client asks a server: again until there is an answer, under one Idempotency-Key.

const AGAIN = new Set([429, 503, 504]);
// Who forgot to say whose memory is meant would read and write what all share.
const WHOSE = new Set(["key", "space"]);
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
// A header of each answer of a server of alveus.
const VERSION = "Alveus-Version";

const etags = new WeakMap();
// What is to be done when a stream has ended, by its response.
const endings = new WeakMap();

/** The ETag of an answer, for `ifMatch`; null: it came without one. */
export const etagOf = (answer) => etags.get(answer) ?? null;

/** An answer of the server that says what is wrong. */
export class AlveusError extends Error {
  constructor(status, fault) {
    super(fault.message);
    this.name = "AlveusError";
    this.status = status;
    this.type = fault.type;
    this.facts = fault.facts ?? {};
  }
}

/** There was no answer for as long as the client tries. */
export class ServerUnreachable extends Error {
  constructor(asked, cause, idempotencyKey) {
    super(`${asked}: no answer (${reasonOf(cause)}); is the server running?`, { cause });
    this.name = "ServerUnreachable";
    this.idempotencyKey = idempotencyKey;
  }
}

const hexOf = (number) => (number < 0n ? `-0x${(-number).toString(16)}` : `0x${number.toString(16)}`);

// `fetch` says only that it failed; what failed is its cause.
const reasonOf = (error) => error?.cause?.code ?? error?.cause?.message ?? error?.message;

// What is to be done where a signal is aborted, by the signal: Node.js warns of more than ten listeners.
const relays = new WeakMap();

/** Have a signal, if there is one, call `act` once it is aborted; return what ends that. */
function onAbort(signal, act) {
  if (signal === undefined || signal === null) return () => {};
  signal.throwIfAborted();
  let relay = relays.get(signal);
  if (relay === undefined) {
    const acts = new Set();
    relay = { acts, listener: () => [...acts].forEach((each) => each()) };
    relays.set(signal, relay);
    signal.addEventListener("abort", relay.listener, { once: true });
  }
  const own = () => act();
  relay.acts.add(own);
  return () => {
    if (!relay.acts.delete(own) || relay.acts.size > 0) return;
    signal.removeEventListener("abort", relay.listener);
    relays.delete(signal);
  };
}

// Of this machine, or browser, from UTC. Not its name, which a server without time zone data does not know.
function offset() {
  const minutes = -new Date().getTimezoneOffset();
  const [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `${minutes < 0 ? "-" : "+"}${String(hours).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
}

const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
    const timer = setTimeout(() => {
      forget();
      resolve();
    }, ms);
  });

export class Connection {
  #url;
  #token;
  #fetch;
  #timeoutMs;
  #retryForMs;
  #silentMs;
  #timezone;

  constructor(url, options = {}) {
    const { token, fetch = globalThis.fetch, timeoutMs = 30_000, retryForMs = 30_000, silentMs = 60_000 } = options;
    const isUrl = /^https?:\/\/[^?#@\s]+$/i.test(url) && URL.canParse(url);
    if (!isUrl) throw new TypeError(`${url}: the url of a server is http://host:port, or https://…, with nothing after it`);
    this.#url = String(url).replace(/\/+$/, "");
    // Here, as the error about a header would show it.
    if (!/^[\x21-\x7e]+$/.test(token ?? "none")) throw new TypeError("token must be what `alveus token new` printed");
    this.#token = token ?? undefined;
    this.#fetch = fetch;
    this.#timeoutMs = timeoutMs;
    this.#retryForMs = retryForMs;
    this.#silentMs = silentMs;
    this.#timezone = options.timezone;
  }

  async _json(operation, query, body, options = {}) {
    const response = await this.#answer(operation, query, body, options);
    const answer = await response.json();
    const etag = response.headers.get("ETag");
    if (etag !== null) etags.set(answer, etag);
    return answer;
  }

  async _text(operation, query, options = {}) {
    return (await this.#answer(operation, query, undefined, options)).text();
  }

  /** Yield the lines of a document. It is not begun again: what was cut off raises. */
  async *_lines(operation, query, options = {}) {
    const response = await this.#answer(operation, query, undefined, { ...options, isStream: true });
    for await (const line of linesOf(response)) yield JSON.parse(line);
  }

  /** Yield events for good; a stream that ends is followed again from its last event. */
  async *_events(operation, query, options = {}) {
    let position;
    for (;;) {
      try {
        const headers = position === undefined ? {} : { "Last-Event-ID": position };
        const asked = { ...options, headers, isStream: true };
        const response = await this.#answer(operation, query, undefined, asked);
        for await (const fields of blocksOf(response, this.#silentMs)) {
          if (fields.id !== undefined) position = fields.id;
          if (fields.data !== undefined) {
            yield { id: Number(fields.id), event: fields.event ?? "message", data: JSON.parse(fields.data) };
          }
        }
      } catch (error) {
        options.signal?.throwIfAborted();
        if (error instanceof AlveusError || error instanceof ServerUnreachable) throw error;
      }
      await pause(FIRST_PAUSE_MS, options.signal);
    }
  }

  /** Return an answer; ask again, under the same name, while there is none. */
  async #answer([method, path, isWrite], query, body, options) {
    const { signal, idempotencyKey, ifMatch, isStream = false } = options;
    const headers = { ...options.headers, "Alveus-Timezone": this.#timezone ?? offset() };
    if (this.#token !== undefined) headers.Authorization = `Bearer ${this.#token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (isWrite) headers["Idempotency-Key"] = idempotencyKey ?? crypto.randomUUID();
    if (ifMatch !== undefined) headers["If-Match"] = ifMatch;
    new Headers(headers); // what no header may hold is an error now, and not tried again
    const url = this.#address(path, query);
    const asked = `${method} ${this.#url}${path}`;
    const sent = { method, headers, body: body === undefined ? undefined : JSON.stringify(body, asJson) };
    const ends = Date.now() + this.#retryForMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const [response, failure] = await this.#tried(url, sent, signal, isStream);
      if (response?.ok && response.headers.has(VERSION)) return response;
      if (response?.ok) throw foreign(asked, response);
      const wantedMs = 1_000 * (Number(response?.headers.get("Retry-After")) || 0); // 0: it is a date
      const waitMs = Math.max(wantedMs, pauseMs * (0.5 + Math.random() / 2));
      const isLate = Date.now() + Math.max(waitMs, pauseMs) > ends;
      if (response !== undefined && (isLate || !isAway(response))) throw await faultOf(asked, response);
      if (isLate) throw new ServerUnreachable(asked, failure, headers["Idempotency-Key"]);
      await pause(waitMs, signal);
    }
  }

  async #tried(url, sent, signal, isStream) {
    const stop = new AbortController();
    const forget = onAbort(signal, () => stop.abort(signal.reason));
    const timer = setTimeout(() => stop.abort(new Error("timed out")), this.#timeoutMs);
    let response;
    try {
      response = await this.#fetch(url, { ...sent, signal: stop.signal });
      // The whole of an answer has to come in time, and is asked for again where it does not.
      return [isStream && response.ok ? response : await whole(response), undefined];
    } catch (error) {
      signal?.throwIfAborted();
      return [undefined, error];
    } finally {
      clearTimeout(timer);
      if (isStream && response?.ok) endings.set(response, forget);
      else forget();
    }
  }

  #address(path, query) {
    const given = query ?? {};
    // A Map, say, would be read as an object that names nobody.
    if (typeof given !== "object" || Symbol.iterator in given) {
      throw new TypeError('parameters are an object, such as { key: "ada" }');
    }
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(given)) {
      if (WHOSE.has(name) && (value === undefined || value === null)) {
        throw new TypeError(`${name} is ${value}; leave it out to mean what all keys share, or the default space`);
      }
      if (value === undefined || value === null) continue;
      for (const each of Array.isArray(value) ? value : [value]) asked.append(name, plainText(name, each));
    }
    const text = asked.toString();
    return `${this.#url}${path}${text === "" ? "" : `?${text}`}`;
  }
}

// Any object would be sent as "[object Object]", so all users whose objects are given would be one.
function plainText(name, value) {
  if (!["string", "boolean", "bigint"].includes(typeof value) && !Number.isFinite(value)) {
    throw new TypeError(`${name} must be a text, a number, or true or false`);
  }
  // It would be sent as U+FFFD, so two names would be one.
  if (/\p{Surrogate}/u.test(String(value))) throw new TypeError(`${name} holds half a surrogate pair`);
  return String(value);
}

// Kinds of which JSON keeps all there is: not those of a Map, an Error, or a Promise that nobody awaited.
const PLAIN = new Set(["Object", "Array", "String", "Number", "Boolean", "Null", "Undefined"].map((kind) => `[object ${kind}]`));

// What JSON has no form of would be sent as null, or as an object that is something else.
function asJson(name, value) {
  const given = this[name];
  if (typeof given === "number" && !Number.isFinite(given)) {
    throw new TypeError(`${name}: ${given} is not JSON; write { "$float": "nan" }, "inf" or "-inf"`);
  }
  if (typeof given === "bigint") throw new TypeError(`${name}: ${given}n is not JSON; write { "$int": "${hexOf(given)}" }`);
  if (given instanceof Date && Number.isNaN(given.getTime())) throw new TypeError(`${name}: an invalid Date is not JSON`);
  if (typeof given === "function" || typeof given === "symbol" || (given === undefined && Array.isArray(this))) {
    throw new TypeError(`${name}: ${String(given)} is not JSON; write null, or leave it out`);
  }
  if (ArrayBuffer.isView(given) || !PLAIN.has(Object.prototype.toString.call(value))) {
    throw new TypeError(`${name}: a ${given.constructor?.name} is not JSON; write an object, a list, or { "$bytes": base64 }`);
  }
  return value;
}

// A proxy before the server that does not reach it answers 502 with a page; the server itself, of a model, with JSON.
const isAway = ({ status, headers }) =>
  AGAIN.has(status) || (status === 502 && !headers.get("Content-Type")?.includes("json"));

async function whole(response) {
  const { status, headers } = response;
  const bytes = await response.arrayBuffer();
  return new Response(bytes.byteLength === 0 ? null : bytes, { status, headers });
}

async function faultOf(asked, response) {
  const told = await response.json().catch(() => null);
  const message = `${asked}: the answer has status ${response.status}, and is none of alveus`;
  return new AlveusError(response.status, told?.error ?? { type: "HttpError", message });
}

function foreign(asked, response) {
  endings.get(response)?.();
  response.body?.cancel().catch(() => {});
  const message = `${asked}: no server of alveus answers there: its answer names no version of it`;
  return new AlveusError(response.status, { type: "NotAStore", message });
}

// What comes of a body; it is given up where nothing comes for so long.
async function* textsOf(body, silentMs) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      let timer;
      const silence = new Promise((_, reject) => {
        if (silentMs !== undefined) timer = setTimeout(() => reject(new Error("the server is silent")), silentMs);
      });
      const { done, value } = await Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function* linesOf(response, silentMs) {
  let rest = "";
  try {
    for await (const text of textsOf(response.body, silentMs)) {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      yield* lines;
    }
    if (rest !== "") yield rest; // an answer that was cut off is not taken for one that ended
  } finally {
    endings.get(response)?.();
  }
}

async function* blocksOf(response, silentMs) {
  let fields = {};
  for await (const line of linesOf(response, silentMs)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (line === "") {
      yield fields;
      fields = {};
    } else if (name !== "") fields[name] = value;
  }
}
