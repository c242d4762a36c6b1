// What the tests have the TypeScript client do: node typescript_client.mjs URL TASK [WORDS …].

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";

import { etagOf, Alveus, AlveusError, ServerUnreachable } from "../clients/typescript/index.js";

const [url, task, ...words] = process.argv.slice(2);
const ada = { key: "a/b & ä" };

const refusedWith = (status, type) => (error) =>
  error instanceof AlveusError && error.status === status && error.type === type;

const tasks = {
  async calls(token) {
    const alveus = new Alveus(`${url}/`, { token });
    assert.equal((await alveus.readHealth()).status, "ok");
    const items = [{ value: "Prefers window seats.", metadata: { topic: "travel" } }];
    const once = { idempotencyKey: "order-991" };
    const { ids } = await alveus.addItems(ada, { items }, once);
    assert.deepEqual((await alveus.addItems(ada, { items }, once)).ids, ids);
    const place = { ...ada, id: ids[0] };
    const item = await alveus.readItem(place);
    assert.deepEqual([item.text, item.version, item.metadata], [items[0].value, 1, { topic: "travel" }]);
    const { hits } = await alveus.search(ada, { query: "which seat?", where: { topic: "travel" } });
    assert.equal(hits[0].item.id, ids[0]);
    assert.match((await alveus.makeContext(ada, { query: "which seat?" })).text, /window seats/);
    const there = new Alveus(url, { token, timezone: "Asia/Kolkata" });
    const asked = { query: "which seat yesterday?" };
    assert.match((await there.search(ada, asked)).dated, /, counted in Asia\/Kolkata$/);
    assert.match((await alveus.search(ada, asked)).dated, /, counted in UTC/);

    const path = { ...ada, path: "profile.city" };
    const first = await alveus.writeValue(path, { value: "Lisbon" });
    await alveus.writeValue(path, { value: { $bytes: "AA==" } }, { ifMatch: etagOf(first) });
    const late = alveus.writeValue(path, { value: "Faro" }, { ifMatch: etagOf(first) });
    await assert.rejects(late, refusedWith(412, "CompareFailed"));
    assert.deepEqual((await alveus.readValue(path)).value, { $bytes: "AA==" });
    assert.equal((await alveus.removeValue(path)).removed, true);

    await alveus.learn(ada, { texts: ["I live in Lisbon."] });
    assert.match((await alveus.listFacts(ada)).facts[0].text, /Lisbon/);
    const lines = [];
    for await (const line of alveus.exportSpace({})) lines.push(line);
    assert.equal(lines[0].format, 1);
    assert.match(await alveus.readMetrics(), /alveus/);
    assert.equal((await alveus.forget(ada, { everything: true })).state, "scrubbed");
    assert.deepEqual(await alveus.listKeys({ prefix: "a/" }), { keys: [], more: false });
  },

  async values(named) {
    const alveus = new Alveus(url);
    const { value } = await alveus.readValue({ key: "ada", path: "x" });
    for (const each of JSON.parse(named)) assert.ok(value.some((one) => JSON.stringify(one) === JSON.stringify(each)));
    await alveus.writeValue({ key: "ada", path: "back" }, { value });
    const { metadata } = await alveus.readItem({ key: "ada", id: "i" });
    await alveus.addItems({ key: "ada" }, { items: [{ id: "back", value: "All.", metadata }] });
  },

  async errors(token) {
    const alveus = new Alveus(url, { token });
    const missing = alveus.readItem({ key: "ada", id: "nothing" });
    await assert.rejects(missing, refusedWith(404, "NotFound"));
    await assert.rejects(alveus.listItems({ limit: 0 }), refusedWith(400, "InvalidInput"));
    await assert.rejects(new Alveus(url, { token: "none" }).listKeys(), refusedWith(401, "Unauthenticated"));
    const items = { items: [{ value: "Tea." }] };
    for (const address of ["http://", "http://a b", "http://a:99999", "http://me@a", `${url}/?a=1`]) {
      assert.throws(() => new Alveus(address), /nothing after it/);
    }
    assert.equal((await new Alveus(new URL(url), { token }).listKeys()).more, false);
    const secret = (error) => error instanceof TypeError && !error.message.includes("hidden");
    for (const wrong of ["hidden\n", "hidden words", ""]) assert.throws(() => new Alveus(url, { token: wrong }), secret);
    for (const whose of [{ key: undefined }, { key: null }, { key: "ada", space: undefined }]) {
      await assert.rejects(alveus.addItems(whose, items), { name: "TypeError", message: /leave it out/ });
    }
    for (const key of [{ id: "ada" }, new Date(0), NaN, Symbol("ada"), [["ada"]]]) {
      await assert.rejects(alveus.addItems({ key }, items), { name: "TypeError", message: /key must be a text/ });
    }
    for (const query of [new Map([["key", "ada"]]), new URLSearchParams("key=ada"), "key=ada", ["ada"], ""]) {
      await assert.rejects(alveus.addItems(query, items), { name: "TypeError", message: /parameters are an object/ });
    }
    await assert.rejects(alveus.listItems({ key: ["ada", "bob"] }), refusedWith(400, "InvalidInput"));
    const dropped = [() => 1, Symbol("a"), [undefined], new Date(NaN)];
    await assert.rejects(alveus.writeValue({ key: "ada", path: "a" }, { value: -31n }), /\{ "\$int": "-0x1f" \}/);
    for (const value of dropped) {
      await assert.rejects(alveus.writeValue({ key: "ada", path: "a" }, { value }), /is not JSON/);
    }
    const lost = [new Map(), { a: new Set() }, new Uint8Array(2), Buffer.from("a"), Promise.resolve("a"), [new Error("a")], /a/];
    for (const value of [NaN, [-Infinity], ...lost]) {
      const written = alveus.writeValue({ key: "ada", path: "a" }, { value });
      await assert.rejects(written, { name: "TypeError", message: /is not JSON; write/ });
    }
    await assert.rejects(alveus.addItems({ key: "a\ud800" }, items), /key holds half a surrogate pair/);
    assert.deepEqual((await alveus.listItems({ after: undefined })).items, []);
    await assert.rejects(alveus.addItems({ key: "ada" }, items, { idempotencyKey: "a\nb" }), TypeError);
    assert.throws(() => new Alveus("localhost:8080"), /http:/);
    const nobody = new Alveus("http://127.0.0.1:9", { retryForMs: 200 });
    await assert.rejects(nobody.listKeys(), (error) => error instanceof ServerUnreachable && error.cause instanceof TypeError);
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(nobody.listKeys({}, { signal }), /enough/);
    const hangs = (_, { signal }) => new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    const slow = new Alveus(url, { fetch: hangs, timeoutMs: 20, retryForMs: 10 });
    await assert.rejects(slow.listKeys(), ServerUnreachable);
    const stopped = new Alveus(url, { fetch: hangs }).listKeys({}, { signal: AbortSignal.timeout(20) });
    await assert.rejects(stopped, { name: "TimeoutError" });
  },

  // Of a list, each is a parameter of that name.
  async map() {
    const alveus = new Alveus(url);
    for (const set of ["a", "b", "c"]) await alveus.addItems({ key: "ada", set }, { items: [{ value: `Tea of ${set}.` }] });
    assert.deepEqual((await alveus.mapOfItems({ key: "ada", sets: ["a", "c"] })).sets, ["a", "c"]);
    assert.equal((await alveus.mapOfItems({ key: "ada", sets: [] })).ids.length, 3);
  },

  // A server that answers late, or not at all, at first: the same name is sent each time.
  async again() {
    const names = [];
    const faulty = async (address, sent) => {
      names.push(sent.headers["Idempotency-Key"]);
      const answer = await fetch(address, sent);
      if (names.length === 1) throw new TypeError("the connection was lost after the answer");
      if (names.length === 3) return new Response("<html>", { status: 502, headers: { "Content-Type": "text/html" } });
      if (names.length === 2) return new Response("{}", { status: 503, headers: { "Retry-After": "0" } });
      return answer;
    };
    const alveus = new Alveus(url, { fetch: faulty });
    await alveus.addItems({ key: "ada" }, { items: [{ value: "Tea." }] });
    assert.equal(names.length, 4);
    assert.equal(new Set(names).size, 1);
    assert.equal((await new Alveus(url).listItems({ key: "ada" })).items.length, 1);
  },

  // Something else than a server of alveus, or a part of its answer: said with what was asked.
  async foreign() {
    const answers = (body, status = 200) => new Alveus(url, { fetch: async () => new Response(body, { status }) });
    const page = (status) => (error) => error instanceof AlveusError && error.status === status && error.message.startsWith(`GET ${url}/v1/`);
    for (const body of ["<html>", "null", ""]) await assert.rejects(answers(body).listKeys(), page(200));
    await assert.rejects(answers(null, 204).listKeys(), page(204));
    for (const body of ["<html>", "null", '{"error"']) await assert.rejects(answers(body, 404).listKeys(), page(404));
    for (const stream of [answers("<html>").exportSpace({}), answers("<html>").followEvents({})]) {
      await assert.rejects(async () => {
        for await (const _ of stream);
      }, page(200));
    }
    const cut = async () => new Response('{"type": "alve', { headers: { "Alveus-Version": "0" } });
    await assert.rejects(async () => {
      for await (const _ of new Alveus(url, { fetch: cut }).exportSpace({}));
    }, SyntaxError);

    // An error whose body does not end takes no longer than any answer, and is stopped like one.
    const endless = async (_, { signal }) => {
      const start = (stream) => signal.addEventListener("abort", () => stream.error(signal.reason));
      return new Response(new ReadableStream({ start }), { status: 500 });
    };
    const late = new Alveus(url, { fetch: endless, timeoutMs: 20, retryForMs: 10 });
    const write = late.addItems({ key: "ada" }, { items: [] }, { idempotencyKey: "order-991" });
    await assert.rejects(write, (error) => error instanceof ServerUnreachable && error.idempotencyKey === "order-991");
    const stopped = new Alveus(url, { fetch: endless }).listKeys({}, { signal: AbortSignal.timeout(20) });
    await assert.rejects(stopped, { name: "TimeoutError" });
  },

  // A server that is away, and asks for a pause: a date is none, and a long one is told at once.
  async pauses() {
    let count = 0;
    const away = (asked) => async () => {
      count += 1;
      return new Response("", { status: 503, headers: { "Retry-After": asked } });
    };
    const late = new Alveus(url, { fetch: away("Wed, 21 Oct 2026 07:28:00 GMT"), retryForMs: 3_000 });
    await assert.rejects(late.listKeys(), refusedWith(503, "HttpError"));
    assert.ok(count < 20, `asked ${count} times`);
    await assert.rejects(new Alveus(url, { fetch: away("3600") }).listKeys(), refusedWith(503, "HttpError"));
  },

  // Follows a server that falls silent after each event.
  async silent() {
    const asked = [];
    const fetch = async (_, { headers }) => {
      asked.push(headers["Last-Event-ID"]);
      const event = new TextEncoder().encode(`id: ${asked.length}\ndata: {}\n\n`);
      const told = { "Alveus-Version": "0" };
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue(event) }), { headers: told });
    };
    const alveus = new Alveus(url, { fetch, silentMs: 20 });
    const ids = [];
    for await (const { id } of alveus.followEvents({ key: "ada" })) {
      ids.push(id);
      if (ids.length === 3) break;
    }
    assert.deepEqual(ids, [1, 2, 3]);
    assert.deepEqual(asked, [undefined, "1", "2"]);
    const stop = new AbortController();
    let left = 3;
    for await (const _ of alveus.followEvents({ key: "ada" }, { signal: stop.signal })) {
      assert.ok(getEventListeners(stop.signal, "abort").length <= 1);
      left -= 1;
      if (left === 0) break;
    }
    assert.equal(getEventListeners(stop.signal, "abort").length, 0);
    const ends = alveus.followEvents({ key: "ada" }, { signal: AbortSignal.timeout(200) });
    await assert.rejects(async () => {
      for await (const _ of ends);
    });
  },

  // Node.js warns of more than ten listeners of one signal.
  async shared() {
    const stop = new AbortController();
    const endless = async (_, { signal }) => {
      const start = (stream) => {
        signal.addEventListener("abort", () => stream.error(signal.reason));
        stream.enqueue(new TextEncoder().encode("id: 1\ndata: {}\n\n"));
      };
      return new Response(new ReadableStream({ start }), { headers: { "Alveus-Version": "0" } });
    };
    const alveus = new Alveus(url, { fetch: endless });
    const streams = Array.from({ length: 20 }, () => alveus.followEvents({}, { signal: stop.signal }));
    await Promise.all(streams.map((stream) => stream.next()));
    assert.equal(getEventListeners(stop.signal, "abort").length, 1);
    const nexts = streams.map((stream) => stream.next());
    stop.abort(new Error("enough"));
    for (const next of nexts) await assert.rejects(next, /enough/);
    const late = alveus.followEvents({}, { signal: stop.signal }).next();
    await assert.rejects(late, /enough/);
    assert.equal(getEventListeners(stop.signal, "abort").length, 0);
  },

  // Writes, one after the other, and tells of each that was answered.
  async writes(count) {
    const alveus = new Alveus(url, { retryForMs: 120_000 });
    for (let number = 0; number < Number(count); number += 1) {
      await alveus.addItems({ key: "ada" }, { items: [{ value: `Note ${number}.` }] });
      console.log(number);
    }
  },

  // Follows a key until so many events came, and tells their ids.
  async events(count) {
    const alveus = new Alveus(url, { retryForMs: 120_000 });
    let left = Number(count);
    for await (const { id, event, data } of alveus.followEvents({ key: "ada", after: 0 })) {
      assert.equal(event, "commit");
      assert.deepEqual([data.number, data.key], [id, "ada"]);
      console.log(id);
      left -= 1;
      if (left === 0) break;
    }
  },
};

await tasks[task](...words);
