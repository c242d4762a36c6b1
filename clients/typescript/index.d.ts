// Written by tools/make_typescript.py from the description of the server: `make docs`.

import { CallOptions, Connection, GuardedWriteOptions, ServerEvent, WriteOptions } from "./connection.js";

export * from "./connection.js";

/** The ids of items that were added, in the order of the request. */
export interface AddedIds {
  ids: Array<string>;
}

/** A compaction that was done. */
export interface CompactionAnswer {
  id: number;
  commit: number;
  time: string;
  by: string;
  retired: number;
  added: Array<string>;
  erased: number;
  undone: number | null;
  strategy: Record<string, any>;
  notes: Record<string, any>;
}

/** Compactions, the latest first. */
export interface CompactionList {
  compactions: Array<CompactionAnswer>;
}

/** A prompt: as messages of a chat, and as one text. */
export interface ContextAnswer {
  messages: Array<Record<string, any>>;
  text: string;
  tokens: number;
  budget_tokens: number | null;
  partial: boolean;
  reranker_failure: string | null;
  /** How many pieces were looked at that `why` does not name. */
  more: number;
  why: Array<PieceAnswer>;
}

/** A question that a prompt is made for. */
export interface ContextBody {
  query: string | null;
  budget_tokens?: number | null;
  system?: string | null;
  sets?: Array<string> | null;
  knowledge?: Array<string> | null;
  exact?: Array<string> | null;
  where?: Record<string, any> | null;
  as_of?: string | null;
  valid_at?: string | null;
  limit?: number | null;
  min_score?: number;
}

/** How many items were retired. */
export interface DeletedCount {
  deleted: number;
}

/** What is known of a person, a place or a thing. */
export interface EntityAnswer {
  names: Array<string>;
  facts: Array<FactAnswer>;
  relations: Array<FactAnswer>;
  mentions: Array<FactAnswer>;
  timeline: Array<FactAnswer>;
  history: Array<FactAnswer>;
}

/** A value of exact memory; bytes and others are objects of one field. */
export interface ExactValue {
  path: string;
  value: any;
}

/** A fact, and what it rests on. */
export interface FactAnswer {
  id: string;
  text: string;
  subject: string;
  kind: string;
  entities: Array<string>;
  confidence: number;
  quotations: Array<QuotationAnswer>;
  conversation: string;
  sources: Array<string>;
  when: Array<string | null>;
  valid_from: string | null;
  valid_to: string | null;
  confirmed: number;
  replaces: Array<string>;
  replaced_by: Array<string>;
  contradicts: Array<string>;
  learning: string | null;
  model: string;
  prompt: string;
  version: number;
  retired: string | null;
}

/** What was learnt. */
export interface FactList {
  facts: Array<FactAnswer>;
}

/** What went wrong: the class of the error, what to do about it, and its attributes. */
export interface Fault {
  type: string;
  message: string;
  facts: Record<string, any>;
}

/** What is to be erased: these items, those that match, or the whole key. */
export interface ForgetBody {
  ids?: Array<string> | null;
  where?: Record<string, any> | null;
  /** Erase all of the key. */
  everything?: boolean;
  dry_run?: boolean;
}

/** An item that rules of admission hold back, and why. */
export interface HeldAnswer {
  id: string;
  set: string;
  rule: string;
  reason: string;
  since: string;
  item: ItemAnswer;
}

/** The id of an item, in its set once it was released. */
export interface HeldId {
  id: string;
}

/** What rules of admission hold back. */
export interface HeldList {
  held: Array<HeldAnswer>;
}

/** An item that was found, its score, and what that is made of. */
export interface HitAnswer {
  score: number;
  relevance: number | null;
  parts: Record<string, number>;
  item: ItemAnswer;
}

/** An item; times are ISO 8601, in UTC. */
export interface ItemAnswer {
  id: string;
  set: string;
  value: any;
  text: string | null;
  metadata: Record<string, any>;
  importance: number;
  speaker: string | null;
  role: string | null;
  session: string | null;
  time: string | null;
  created: string | null;
  updated: string | null;
  accessed: string | null;
  sources: Array<string>;
  compacted: boolean;
  until: string | null;
  expire_at: string | null;
  valid_from: string | null;
  valid_to: string | null;
  /** Its number; the ETag of the item. */
  version: number;
  /** When this version ended; null: it is the present one. */
  retired: string | null;
}

/** What is known of an item; what is left out is not. */
export interface ItemBody {
  value?: any;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  metadata?: Record<string, any> | null;
  importance?: number | null;
  speaker?: string | null;
  role?: string | null;
  session?: string | null;
  expire_at?: string | null;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  valid_from?: string | null;
  valid_to?: string | null;
}

/** Items of a set by their names. */
export interface ItemIds {
  ids: Array<string>;
}

/** Items, in the order that was asked for. */
export interface ItemPage {
  items: Array<ItemAnswer>;
  /** Whether others follow. */
  more: boolean;
}

/** Every version of an item, the oldest first. */
export interface ItemVersions {
  versions: Array<ItemAnswer>;
}

/** Keys, sorted. */
export interface KeyPage {
  keys: Array<string>;
  /** Whether others follow. */
  more: boolean;
}

/** What was learnt; ids, but for the new facts. */
export interface LearnAnswer {
  added: Array<FactAnswer>;
  confirmed: Array<string>;
  superseded: Array<string>;
  contradicted: Array<string>;
  taken_back: Array<string>;
  refused: Record<string, number>;
  model_calls: number;
  messages: number;
  set_aside: number;
  waiting: number;
  learnings: Array<string>;
  commits: Array<number>;
}

/** Texts that facts are learnt from, or a conversation of the key. */
export interface LearnBody {
  texts?: Array<string> | null;
  conversation?: string | null;
}

/** An item to be added. */
export interface NewItem {
  value?: any;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  metadata?: Record<string, any> | null;
  importance?: number | null;
  speaker?: string | null;
  role?: string | null;
  session?: string | null;
  expire_at?: string | null;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  valid_from?: string | null;
  valid_to?: string | null;
  id?: string | null;
}

/** Items to be added in one commit. */
export interface NewItems {
  items: Array<NewItem>;
  on_existing?: "error" | "keep" | "update";
}

/** What may still hold what was forgotten, and what to do. */
export interface OutOfReachAnswer {
  what: string;
  note: string;
  paths: Array<string>;
  until: string;
}

/** A piece of a prompt, or one that was left out, and why. */
export interface PieceAnswer {
  part: string;
  source: string;
  text: string;
  shown: boolean;
  reason: string;
  tokens: number;
  rank: number;
  set: string | null;
  ids: Array<string>;
  time: string | null;
  score: number | null;
  parts: Record<string, number>;
}

/** An answer that says what is wrong. */
export interface Problem {
  error: Fault;
}

/** What is always told of somebody. */
export interface ProfileAnswer {
  name: string;
  text: string;
  facts: Array<FactAnswer>;
  tokens: number;
  left_out: number;
}

/** The words of a message that a fact rests on. */
export interface QuotationAnswer {
  source: string;
  start: number;
  end: number;
  text: string;
}

/** What was erased: counts and digests, nothing of what was there. */
export interface ReceiptAnswer {
  id: string;
  time: string;
  commit: number | null;
  asked: Record<string, any>;
  counts: Record<string, number>;
  derived: number;
  restored: number;
  lost: number;
  unread: number;
  state: "scrubbed" | "pending";
  held: Array<string>;
  open: Array<number>;
  out_of_reach: Array<OutOfReachAnswer>;
}

/** Receipts, the latest first. */
export interface ReceiptList {
  receipts: Array<ReceiptAnswer>;
}

/** Whether there was something to remove. */
export interface Removed {
  removed: boolean;
}

/** A run of an agent. */
export interface RunAnswer {
  run: number;
  agent: string;
  key: string | null;
  number: number;
  status: "waiting" | "parked" | "done" | "discarded" | "retried";
  accepted: string;
  begun: string | null;
  ended: string | null;
  origin: number | null;
  error: RunError | null;
}

/** The run that has the input now. */
export interface RunChosen {
  run: number;
}

/** What parked a run. */
export interface RunError {
  action: string | null;
  type: string;
  message: string;
}

/** Runs, the latest first. */
export interface RunList {
  runs: Array<RunAnswer>;
  more: boolean;
}

/** Items that answer a question, the best first. */
export interface SearchAnswer {
  /** Items are left out that wait for their vectors. */
  partial: boolean;
  reranker_failure: string | null;
  hits: Array<HitAnswer>;
}

/** A question to items. */
export interface SearchBody {
  query: string;
  sets?: Array<string> | null;
  limit?: number;
  where?: Record<string, any> | null;
  as_of?: string | null;
  valid_at?: string | null;
  min_score?: number | null;
}

/** A set, and how many items it has. */
export interface SetAndSize {
  name: string;
  items: number;
}

/** The sets of a key, or of knowledge. */
export interface SetList {
  sets: Array<SetAndSize>;
}

/** How large a memory is, and what waits. */
export interface StatsAnswer {
  space: string;
  knowledge: string;
  embedder: string;
  pending: number;
  queue_age_s: number | null;
  failure: string | null;
  store: StoreFigures;
}

/** Figures of the store, of all its spaces. */
export interface StoreFigures {
  commits: number;
  keys: number;
  sets: number;
  items: number;
  pending: number;
  file_bytes: number;
  wal_bytes: number;
  runs_waiting: number;
  runs_parked: number;
}

/** What the undoing of a compaction brought back and removed: ids of items. */
export interface UndoneAnswer {
  restored: Array<string>;
  missing: Array<string>;
  removed: Array<string>;
  erased: number;
}

/** A value of exact memory. */
export interface ValueBody {
  value: any;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
}

/** A server of fornix. */
export class Fornix extends Connection {
  /** Add items, all in one commit. */
  addItems(query: {
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, body: NewItems, options?: WriteOptions): Promise<AddedIds>;
  /** Change what is given, as a new version; what is left out stays. */
  changeItem(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, body: ItemBody, options?: GuardedWriteOptions): Promise<ItemAnswer>;
  /** Tell what changed in the exact memory of a key between two commits, or until now. */
  changesOfTree(query: {
    since: number;
    until?: number | null;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List the commits that changed the exact memory of a key, the oldest first. */
  commitsOfTree(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Retire an item; its history stays. `POST /v1/forget` erases. */
  deleteItem(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: GuardedWriteOptions): Promise<DeletedCount>;
  /** Discard an item in quarantine. */
  discardHeld(query: {
    /** The id of an item. */
    id: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: WriteOptions): Promise<HeldId>;
  /** Give a run up: what its finished actions did stays, the rest is never done. */
  discardRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<RunChosen>;
  /** Export a space, or one key, as JSON lines: one unmoving state, as it is sent. */
  exportSpace(query?: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
    knowledge?: boolean;
  }, options?: CallOptions): AsyncGenerator<any, void>;
  /** Follow the number of the last commit of the store, as server-sent events. */
  followCommits(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, never>;
  /**
   * Follow what changes, of a key, of keys that begin so, or of all of a space.
   *
   * Each event is a commit, and says what it changed; without a position, those from now on.
   * What was forgotten since is left out.
   */
  followEvents(query?: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
    prefix?: string;
    /** The number of a commit. */
    after?: number | null;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, never>;
  /**
   * Erase items, or a whole key, for good; the receipt says what keeps it elsewhere.
   *
   * Repeated under one name it erases nothing more, and the receipt says how far it is by now.
   */
  forget(query: {
    /** The set. */
    set?: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: ForgetBody, options?: WriteOptions): Promise<ReceiptAnswer>;
  /**
   * Learn facts from texts, or from a conversation from where it stopped last time.
   *
   * A repetition of a request that was cut off goes on where that stopped.
   */
  learn(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: LearnBody, options?: WriteOptions): Promise<LearnAnswer>;
  /**
   * List what is held back of all keys, and of knowledge, so many keys at a time.
   *
   * Go on with `after`, the `next` of it.
   */
  listAllQuarantine(query?: {
    /** The space. */
    space?: string;
    after?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /**
   * Tell what the last commits of a space changed; go on with `before`, the `next` of it.
   *
   * It looks at so many commits of the store: those of other spaces are left out.
   */
  listCommits(query?: {
    /** The space. */
    space?: string;
    before?: number | null;
    limit?: number;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List what compacted a set, the latest first. */
  listCompactions(query: {
    /** The set. */
    set?: string;
    limit?: number;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<CompactionList>;
  /** List the people, places and things that a key knows facts of, with how many name each. */
  listEntities(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List what was learnt of a key's conversations. */
  listFacts(query: {
    subject?: string | null;
    limit?: number;
    /** What holds at that time; any: whenever it holds. */
    valid_at?: string | null;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<FactList>;
  /** List the items of a set by time; go on after the last one with `after`, its id. */
  listItems(query?: {
    where?: string | null;
    /** As it was then: a commit number, or a time. */
    as_of?: string | null;
    /** What holds at that time; any: whenever it holds. */
    valid_at?: string | null;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
    after?: string | null;
    newest_first?: boolean;
    limit?: number;
  }, options?: CallOptions): Promise<ItemPage>;
  /** List the keys of a space, sorted; go on after the last one with `after`. */
  listKeys(query?: {
    /** The space. */
    space?: string;
    prefix?: string;
    after?: string | null;
    limit?: number;
  }, options?: CallOptions): Promise<KeyPage>;
  /** List what rules of admission hold back of a key, or of knowledge. */
  listQuarantine(query?: {
    limit?: number;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<HeldList>;
  /** Tell which of the last runs of its key looked an item up, and by which questions. */
  listReadings(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List what was forgotten, the latest first. */
  listReceipts(query?: {
    /** The space. */
    space?: string;
    limit?: number;
  }, options?: CallOptions): Promise<ReceiptList>;
  /** Tell what an item was made of, and what was made of it: nodes, and pairs of places. */
  listRelatives(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List runs of agents, the latest first; go on before the last one with `before`. */
  listRuns(query?: {
    agent?: string | null;
    status?: "waiting" | "parked" | "done" | "discarded" | "retried" | null;
    before?: number | null;
    limit?: number;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<RunList>;
  /** List the sets of a key, or of knowledge. */
  listSets(query?: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<SetList>;
  /** List the spaces of the store that whoever asks may see. */
  listSpaces(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Read every version of an item, the oldest first, also after it was deleted. */
  listVersions(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<ItemVersions>;
  /** Make a prompt from the memory of a key, and say what is in it and why. */
  makeContext(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: ContextBody, options?: CallOptions): Promise<ContextAnswer>;
  /**
   * Tell where items are that mean nearly the same: columns of one length.
   *
   * `set` and `speaker` are places in `sets` and `speakers`, -1: nobody; `times` are seconds.
   */
  mapOfItems(query?: {
    /** Their names; none: all. */
    sets?: Array<string> | null;
    limit?: number;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<string>;
  /** Tell which items a compaction retired, and which stand for them, `MOST_SHOWN` of each. */
  readCompaction(query: {
    /** The id of a compaction. */
    id: number;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Read what is known of a person, a place or a thing. */
  readEntity(query: {
    name: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<EntityAnswer>;
  /**
   * Tell how the store grew, at moments from its first commit to its last one.
   *
   * `commits` are those there were, `items` those of the items that are there now.
   */
  readGrowth(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Say that the process is there. */
  readHealth(query?: {}, options?: CallOptions): Promise<Record<string, string>>;
  /** Read an item. */
  readItem(query: {
    /** The id of an item. */
    id: string;
    /** As it was then: a commit number, or a time. */
    as_of?: string | null;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<ItemAnswer>;
  /**
   * Read items by their ids, in that order, null for those that are not there.
   *
   * It does not count as a read of them: nobody but a person has seen them.
   */
  readItems(query: {
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, body: ItemIds, options?: CallOptions): Promise<Record<string, any>>;
  /** Tell what an item was derived from, to any depth: nodes, and pairs of places in them. */
  readLineage(query: {
    /** The id of an item. */
    id: string;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Read counters of requests, as Prometheus reads them. */
  readMetrics(query?: {}, options?: CallOptions): Promise<string>;
  /** Read what is always told of somebody, in so many tokens at most. */
  readProfile(query: {
    name?: string | null;
    budget?: number;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<ProfileAnswer>;
  /** Say whether the store answers, for whoever has a token for its space. */
  readReadiness(query?: {}, options?: CallOptions): Promise<Record<string, string>>;
  /** Tell what a run did: each step, what it read and wrote, called, sent and put out. */
  readRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Read how large the memory is, and what waits. */
  readStats(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<StatsAnswer>;
  /** Read a value, or an object with all below it. */
  readValue(query: {
    /** Names with dots between, or a JSON list of names; empty: the root. */
    path?: string;
    /** As it was then: a commit number, or a time. */
    as_of?: string | null;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<ExactValue>;
  /** Move an item from quarantine into its set. */
  releaseHeld(query: {
    /** The id of an item. */
    id: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, options?: WriteOptions): Promise<HeldId>;
  /** Remove a value, or an object with all below it; see `PUT` for If-Match. */
  removeValue(query: {
    /** Names with dots between, or a JSON list of names; empty: the root. */
    path: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: GuardedWriteOptions): Promise<Removed>;
  /** Have a parked run tried again by whoever serves its agent. */
  retryRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<RunChosen>;
  /** Find what answers a question best, in the sets of a key, or in knowledge. */
  search(query: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string | null;
  }, body: SearchBody, options?: CallOptions): Promise<SearchAnswer>;
  /** Bring back what a compaction retired, and remove what it added. */
  undoCompaction(query: {
    id: number;
    /** The set. */
    set?: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<UndoneAnswer>;
  /** Set a value; with If-Match only if it is still the one that was read. */
  writeValue(query: {
    /** Names with dots between, or a JSON list of names; empty: the root. */
    path: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: ValueBody, options?: GuardedWriteOptions): Promise<ExactValue>;
}
