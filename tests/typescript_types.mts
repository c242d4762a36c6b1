// How a program uses the TypeScript client: its types are checked by `make typescript`.

import { etagOf, Alveus, AlveusError, ItemAnswer } from "../clients/typescript/index.js";
const alveus = new Alveus("http://localhost:8080", { token: "t" });
const { ids } = await alveus.addItems({ key: "ada" }, { items: [{ value: "Tea.", time: new Date().toISOString() }] }, { idempotencyKey: "x" });
const item: ItemAnswer = await alveus.readItem({ key: "ada", id: ids[0]! });
const text: string | null = item.text;
await alveus.writeValue({ key: "ada", path: "a" }, { value: 1 }, { ifMatch: etagOf(item) ?? undefined });
for await (const event of alveus.followEvents({ key: "ada" }, { signal: AbortSignal.timeout(1) })) console.log(event.id.toFixed(), event.data.items[0]?.set, text);
try { await alveus.listKeys(); } catch (error) { if (error instanceof AlveusError) console.log(error.status, error.facts["x"]); }
const { ids: placed, x } = await alveus.mapOfItems({ key: "ada", sets: ["notes"] });
console.log(placed[0]?.length, x[0]?.toFixed());
// @ts-expect-error - it would mean what all share
await alveus.listItems({ key: null });
// @ts-expect-error - no such field
await alveus.search({ key: "ada" }, { question: "?" });
// @ts-expect-error - a path is needed
await alveus.readItem({ key: "ada" });
