// Written by tools/make_typescript.py from the description of the server: `make docs`.

import { Connection } from "./connection.js";

export { AlveusError, ServerUnreachable, etagOf } from "./connection.js";

export class Alveus extends Connection {
  addItems(query, body, options) { return this._json(["POST", "/v1/items", true], query, body, options); }
  changeItem(query, body, options) { return this._json(["PATCH", "/v1/item", true], query, body, options); }
  changesOfTree(query, options) { return this._json(["GET", "/v1/exact/changes", false], query, undefined, options); }
  commitsOfTree(query, options) { return this._json(["GET", "/v1/exact/commits", false], query, undefined, options); }
  deleteItem(query, options) { return this._json(["DELETE", "/v1/item", true], query, undefined, options); }
  discardHeld(query, options) { return this._json(["POST", "/v1/quarantine/discard", true], query, undefined, options); }
  discardRun(query, options) { return this._json(["POST", "/v1/runs/discard", true], query, undefined, options); }
  exportSpace(query, options) { return this._lines(["GET", "/v1/export", false], query, options); }
  followCommits(query, options) { return this._events(["GET", "/v1/commits", false], query, options); }
  followEvents(query, options) { return this._events(["GET", "/v1/events", false], query, options); }
  forget(query, body, options) { return this._json(["POST", "/v1/forget", true], query, body, options); }
  learn(query, body, options) { return this._json(["POST", "/v1/learn", true], query, body, options); }
  listAllQuarantine(query, options) { return this._json(["GET", "/v1/quarantine/all", false], query, undefined, options); }
  listCommits(query, options) { return this._json(["GET", "/v1/journal", false], query, undefined, options); }
  listCompactions(query, options) { return this._json(["GET", "/v1/compactions", false], query, undefined, options); }
  listEntities(query, options) { return this._json(["GET", "/v1/facts/entities", false], query, undefined, options); }
  listFacts(query, options) { return this._json(["GET", "/v1/facts", false], query, undefined, options); }
  listItems(query, options) { return this._json(["GET", "/v1/items", false], query, undefined, options); }
  listKeys(query, options) { return this._json(["GET", "/v1/keys", false], query, undefined, options); }
  listQuarantine(query, options) { return this._json(["GET", "/v1/quarantine", false], query, undefined, options); }
  listReadings(query, options) { return this._json(["GET", "/v1/item/readings", false], query, undefined, options); }
  listReceipts(query, options) { return this._json(["GET", "/v1/receipts", false], query, undefined, options); }
  listRelatives(query, options) { return this._json(["GET", "/v1/item/relatives", false], query, undefined, options); }
  listRuns(query, options) { return this._json(["GET", "/v1/runs", false], query, undefined, options); }
  listSets(query, options) { return this._json(["GET", "/v1/sets", false], query, undefined, options); }
  listSpaces(query, options) { return this._json(["GET", "/v1/spaces", false], query, undefined, options); }
  listVersions(query, options) { return this._json(["GET", "/v1/item/history", false], query, undefined, options); }
  makeBatch(query, body, options) { return this._json(["POST", "/v1/batch", true], query, body, options); }
  makeCall(query, body, options) { return this._json(["POST", "/v1/call", true], query, body, options); }
  makeContext(query, body, options) { return this._json(["POST", "/v1/context", false], query, body, options); }
  mapOfItems(query, options) { return this._json(["GET", "/v1/map", false], query, undefined, options); }
  readCompaction(query, options) { return this._json(["GET", "/v1/compaction", false], query, undefined, options); }
  readEntity(query, options) { return this._json(["GET", "/v1/about", false], query, undefined, options); }
  readGrowth(query, options) { return this._json(["GET", "/v1/growth", false], query, undefined, options); }
  readHealth(query, options) { return this._json(["GET", "/health", false], query, undefined, options); }
  readItem(query, options) { return this._json(["GET", "/v1/item", false], query, undefined, options); }
  readItems(query, body, options) { return this._json(["POST", "/v1/items/get", false], query, body, options); }
  readLineage(query, options) { return this._json(["GET", "/v1/item/lineage", false], query, undefined, options); }
  readMetrics(query, options) { return this._text(["GET", "/metrics", false], query, options); }
  readProfile(query, options) { return this._json(["GET", "/v1/profile", false], query, undefined, options); }
  readReadiness(query, options) { return this._json(["GET", "/ready", false], query, undefined, options); }
  readRun(query, options) { return this._json(["GET", "/v1/run", false], query, undefined, options); }
  readStats(query, options) { return this._json(["GET", "/v1/stats", false], query, undefined, options); }
  readValue(query, options) { return this._json(["GET", "/v1/exact", false], query, undefined, options); }
  releaseHeld(query, options) { return this._json(["POST", "/v1/quarantine/release", true], query, undefined, options); }
  removeValue(query, options) { return this._json(["DELETE", "/v1/exact", true], query, undefined, options); }
  retryRun(query, options) { return this._json(["POST", "/v1/runs/retry", true], query, undefined, options); }
  search(query, body, options) { return this._json(["POST", "/v1/search", false], query, body, options); }
  undoCompaction(query, options) { return this._json(["POST", "/v1/compactions/undo", true], query, undefined, options); }
  writeValue(query, body, options) { return this._json(["PUT", "/v1/exact", true], query, body, options); }
}
