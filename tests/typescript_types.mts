// How a program uses the TypeScript client: its types are checked by `make typescript`.

import { etagOf, Fornix, FornixError, ItemAnswer } from "../clients/typescript/index.js";
const fornix = new Fornix("http://localhost:8080", { token: "t" });
const { ids } = await fornix.addItems({ key: "ada" }, { items: [{ value: "Tea.", time: new Date().toISOString() }] }, { idempotencyKey: "x" });
const item: ItemAnswer = await fornix.readItem({ key: "ada", id: ids[0]! });
const text: string | null = item.text;
await fornix.writeValue({ key: "ada", path: "a" }, { value: 1 }, { ifMatch: etagOf(item) ?? undefined });
for await (const event of fornix.followEvents({ key: "ada" }, { signal: AbortSignal.timeout(1) })) console.log(event.id.toFixed(), event.data.items[0]?.set, text);
try { await fornix.listKeys(); } catch (error) { if (error instanceof FornixError) console.log(error.status, error.facts["x"]); }
const { ids: placed, x } = await fornix.mapOfItems({ key: "ada", sets: ["notes"] });
console.log(placed[0]?.length, x[0]?.toFixed());
// @ts-expect-error - it would mean what all share
await fornix.listItems({ key: null });
// @ts-expect-error - no such field
await fornix.search({ key: "ada" }, { question: "?" });
// @ts-expect-error - a path is needed
await fornix.readItem({ key: "ada" });
