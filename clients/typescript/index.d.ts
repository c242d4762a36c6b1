// Written by tools/make_typescript.py from the description of the server: `make docs`.

import { CallOptions, Connection, GuardedWriteOptions, ServerEvent, WriteOptions } from "./connection.js";

export * from "./connection.js";

/** The ids of items that were added, in the order of the request. */
export interface AddedIds {
  ids: Array<string>;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** Add to the end of a list; begin one if nothing is there. */
export interface AppendValue {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.append";
  value: any;
}

/** What calls of a batch answer, and its commit, if there was anything to commit. */
export interface BatchAnswer {
  /** The commit as of which exact memory was read. */
  base: number;
  answers: Array<CallAnswer>;
  touched: Array<TouchedItem>;
  /** Whether it changes anything. */
  changes: boolean;
  commit: BatchCommit | null;
}

/** Calls that are made together, or not at all. */
export interface BatchBody {
  calls: Array<ReadValue | HasValue | FieldNames | ListNames | ReadFields | Subtree | WriteValue | NewObject | RemoveValue | MoveValue | ClearObject | AppendValue | IncrementValue | ReplaceValue | CopyObject | SetAddMany | SetGet | SetList-Input | SetRecent | SetHistory | SetSearch | SetPoints | SetUpdate | SetSupersede | SetDelete | SetPop | SetRenew | SetForget | SetCompactions | SetUndo | SetSources | SetLineage | SetAdmit | SetSize | SetDefinition | RedefineSet | KeyContext | KeySearch | KeyPoints | KeySets | KeyForget | CompareMoments | QuarantineList | QuarantineGet | QuarantineRelease | QuarantineDiscard | QuarantineSize | ConversationAdd | ConversationGetMemory | ConversationMessages | ConversationSize | ConversationClear | ConversationUpdateMessagesMark | ConversationUpdateCompressedSummary | ConversationCompress | ConversationUncompress | ConversationStateDict | ConversationLoadStateDict | ConversationSummary | FactsList | FactsGet | FactsHistory | FactsLearnings | FactsCost | FactsAbout | FactsEntities | FactsNeighbours | FactsTimeline | FactsProfile | FactsMerge | FactsSplit | FactsWhy | FactsCheck | FactsUndo | FactsSize>;
  /** Commit nothing; tell the last answer. */
  dry_run?: boolean;
  /** The commit as of which exact memory is read. */
  base?: number | null;
  /** It rests on what was read of exact memory, by a dry run. */
  has_read?: boolean;
  /** How many of the calls a dry run has answered. */
  answered?: number;
  /** As a dry run told; if it is other by now, nothing is committed. */
  touched?: Array<TouchedItem> | null;
}

/** The commit of a batch; its time in microseconds. */
export interface BatchCommit {
  number: number;
  time: number;
  /** It was made before, under the same idempotency key. */
  adopted: boolean;
}

/** The most tokens of a prompt, and their counter. */
export interface Budget {
  tokens?: number | null;
  message_tokens?: number;
}

/** What the call answers in Python, as fields; none if that is nothing. */
export type CallAnswer = Record<string, any>;

/** Remove all below an object, which stays; an empty path is the root. */
export interface ClearObject {
  call: "exact.clear";
  /** The names from the root down. */
  path: Array<string>;
}

/** What a commit changed: of values and items the first ones, and how many there are. */
export interface CommitAnswer {
  number: number;
  time: string;
  key: string | null;
  /** Paths that were set. */
  values: Array<Array<string>>;
  values_set: number;
  values_removed: number;
  items: Array<ItemOfCommit>;
  items_written: number;
  items_removed: number;
  compactions: number;
  undone: number;
}

/** Commits, the latest first. */
export interface CommitPage {
  commits: Array<CommitAnswer>;
  /** Go on with it as `before`; null: that was all. */
  next: number | null;
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

/** Return what changed in the memory of a key between two moments; see `Memory.diff`. */
export interface CompareMoments {
  call: "key.diff";
  a: string | number;
  /** By default now. */
  b?: string | number | null;
  /** By default all. */
  sets?: Array<string> | null;
  tree?: "show" | "skip";
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
  min_score?: number | null;
}

/** Add messages, or one; return their ids, in order. */
export interface ConversationAdd {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.add";
  messages: Record<string, any> | Message | Array<Record<string, any> | Message> | null;
  marks?: string | Array<string> | null;
}

/** Delete all messages, and the summary; return how many messages there were. */
export interface ConversationClear {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.clear";
}

/** Sum up what was said, but for the end of it; nothing that was said is lost. */
export interface ConversationCompress {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.compress";
  keep_recent?: number | null;
  keep_tokens?: number | null;
  trigger_tokens?: number | Budget | null;
  beside_tokens?: number;
  max_tokens?: number;
}

/** Return messages in order, as they were added, with their ids. */
export interface ConversationGetMemory {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.get_memory";
  mark?: string | null;
  exclude_mark?: string | null;
  prepend_summary?: boolean;
  recent_n?: number | null;
}

/** Have what `state_dict` returned instead of what there is, in one commit. */
export interface ConversationLoadStateDict {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.load_state_dict";
  state: Record<string, any>;
  strict?: boolean;
}

/** Return what a model is to be told: the summary, and the messages that it is not of. */
export interface ConversationMessages {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.messages";
  recent_n?: number | null;
  mark?: string | null;
  exclude_mark?: string | null;
  prepend_summary?: boolean;
  for_chat?: boolean;
}

/** Return how many messages there are; the summary is none. */
export interface ConversationSize {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.size";
}

/** Return all of it as JSON has it: messages with their marks, and the summary. */
export interface ConversationStateDict {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.state_dict";
}

/** What stands for the messages that are marked `COMPRESSED`; "" if there is none. */
export interface ConversationSummary {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.summary";
}

/** Undo the last summary: the one before is back, and messages that it stood for are open. */
export interface ConversationUncompress {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.uncompress";
}

/** Have another summary, and in the same commit mark messages as compressed. */
export interface ConversationUpdateCompressedSummary {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.update_compressed_summary";
  summary: string;
  msg_ids?: string | Array<string>;
}

/** Give messages a mark, take one off, or put one in the place of another. */
export interface ConversationUpdateMessagesMark {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.update_messages_mark";
  new_mark?: string | null;
  old_mark?: string | null;
  msg_ids?: string | Array<string> | null;
}

/** Copy an object of this memory, or one that is sent, with all below it. */
export interface CopyObject {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.copy";
  /** The object, by its path. */
  source?: Array<string> | null;
  /** As `exact.to_dict` tells. */
  nodes?: Array<NewNode> | null;
}

/** How a set is to be; what is left out is as by default. See `Definition` of alveus. */
export interface DefinitionOptions {
  capacity?: number | null;
  compaction?: string | Record<string, any> | null;
  capacity_tokens?: number | null;
  capacity_bytes?: number | null;
  high_water?: number | null;
  low_water?: number | null;
  execution?: "background" | "sync" | "external" | null;
  retention?: "keep" | "purge" | number | null;
  signals?: Record<string, number> | null;
  admission?: Array<Record<string, any>> | null;
  item_type?: string | null;
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
  /** Whether an object is there, and not a dict as a value. */
  is_object: boolean;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** A fact, as its item in the set "facts" has it. */
export interface Fact {
  id?: string;
  text?: string;
  subject?: string;
  kind?: string;
  entities?: Array<string>;
  confidence?: number;
  quotations?: Array<Quotation>;
  conversation?: string;
  sources?: Array<string>;
  when?: Array<string | null>;
  zone?: string;
  valid_from?: string | null;
  valid_to?: string | null;
  confirmed?: number;
  replaces?: Array<string>;
  replaced_by?: Array<string>;
  contradicts?: Array<string>;
  learning?: string;
  model?: string;
  prompt?: string;
  version?: number;
  retired?: string | null;
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
  zone: string;
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

/** Return the page of a person, a place or a thing. */
export interface FactsAbout {
  call: "facts.about";
  name: string;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Return what is wrong with the sources of the facts: nothing, unless they were changed. */
export interface FactsCheck {
  call: "facts.check";
}

/** Return what learning from a conversation would cost now; asks nobody, changes nothing. */
export interface FactsCost {
  call: "facts.cost";
  conversation: string;
  options?: LearnOptions | null;
}

/** Return the names of all people, places and things, with how many facts name each. */
export interface FactsEntities {
  call: "facts.entities";
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Return a fact by its id; None: there is none. */
export interface FactsGet {
  call: "facts.get";
  id: string;
}

/** Return every version of a fact that is kept, oldest first. */
export interface FactsHistory {
  call: "facts.history";
  id: string;
}

/** Return the learnings of the key, the last one first. */
export interface FactsLearnings {
  call: "facts.learnings";
  limit?: number;
}

/** Return facts, by the time of their messages. */
export interface FactsList {
  call: "facts.list";
  subject?: string | null;
  where?: Record<string, any> | null;
  limit?: number | null;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Let other names be of the same entity; return its page. `split` takes it back. */
export interface FactsMerge {
  call: "facts.merge";
  name: string;
  others: Array<string>;
}

/** Return the entities that facts lead to from one, the nearest first. */
export interface FactsNeighbours {
  call: "facts.neighbours";
  name: string;
  steps?: number;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Return what is always told of somebody: the facts that hold, within a budget. */
export interface FactsProfile {
  call: "facts.profile";
  name?: string | null;
  budget?: number;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

export interface FactsSize {
  call: "facts.size";
}

/** Let another name of an entity be of one of its own again. */
export interface FactsSplit {
  call: "facts.split";
  name: string;
}

/** Return what took place and what is planned, by when it does; what has no date is last. */
export interface FactsTimeline {
  call: "facts.timeline";
  name?: string | null;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Take back learnings, in one commit; return how many facts are gone with them. */
export interface FactsUndo {
  call: "facts.undo";
  learnings: Array<string | LearnReport>;
}

/** Return where a fact comes from: messages, model, prompt, and what it replaced. */
export interface FactsWhy {
  call: "facts.why";
  fact: string | Fact;
}

/** What went wrong: the class of the error, what to do about it, and its attributes. */
export interface Fault {
  type: string;
  message: string;
  facts: Record<string, any>;
}

/** List the names of fields in the order in which they were made. */
export interface FieldNames {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get_field_names";
}

/** What is to be erased: these items, those that match, or the whole key. */
export interface ForgetBody {
  ids?: Array<string> | null;
  where?: Record<string, any> | null;
  /** Erase all of the key. */
  everything?: boolean;
  dry_run?: boolean;
}

/** Tell whether a value or an object is there. */
export interface HasValue {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.is_exist";
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

/** Add to a number; 0 if nothing is there. */
export interface IncrementValue {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.increment";
  by?: any;
}

/** One thing that a memory set holds. */
export interface Item {
  value?: any;
  id?: string;
  text?: string;
  metadata?: Record<string, any>;
  importance?: number;
  speaker?: string | null;
  role?: string | null;
  session?: string | null;
  time?: string;
  sources?: Array<string>;
  compacted?: boolean;
  until?: string | null;
  expire_at?: string | null;
  valid_from?: string | null;
  valid_to?: string | null;
  ttl_s?: number | string | null;
  texts?: Array<string> | null;
  timezone?: any;
}

/** An item; times are ISO 8601, in UTC, and `time` with the offset that it came with. */
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
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** What is known of an item; what is left out is not. */
export interface ItemBody {
  value?: any;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  /** Whose offset the item keeps: a name, or an offset; that of `time`. */
  timezone?: string | null;
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

/** Where items are that mean nearly the same: columns of one length. */
export interface ItemMap {
  ids: Array<string>;
  x: Array<number>;
  y: Array<number>;
  /** Seconds since 1970. */
  times: Array<number>;
  sets: Array<string>;
  /** Places in `sets`. */
  set: Array<number>;
  speakers: Array<string>;
  /** Places in `speakers`; -1: nobody. */
  speaker: Array<number>;
  /** How much of all difference the places show, 0 to 1. */
  share: number;
  /** Items that wait for their vectors, or have no text. */
  unplaced: number;
  /** Items beyond the limit. */
  left_out: number;
}

/** An item that a commit wrote or removed. */
export interface ItemOfCommit {
  kind: "written" | "removed";
  set: string;
  id: string;
  version: number;
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

/** Return a prompt for *query*: what of the key's memory matters to it, and why. */
export interface KeyContext {
  of_knowledge?: boolean;
  call: "key.context";
  query: string | null;
  budget_tokens?: number | Budget | null;
  system?: string | null;
  messages?: string | "newest" | null;
  recent?: number | null;
  sets?: Array<string> | "all" | null;
  knowledge?: Array<string> | "all" | null;
  exact?: Array<string | Array<string>> | "all" | null;
  profile?: string | null;
  blocks?: Array<string> | "all" | null;
  where?: Record<string, any> | null;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
  signals?: Signals | null;
  limit?: number | null;
  reranker?: "as the memory was opened" | null;
  min_score?: number | null;
  /** How a budget is divided among the parts of a prompt. */
  shares?: {
    exact?: number;
    knowledge?: number;
    recent?: number;
    items?: number;
    profile?: number;
    blocks?: number;
  };
  secrets?: "mask" | "show";
  details?: "hide" | "show";
}

/** Erase the whole key, for good; or *ids* of the set "default"; or, of all sets, *where*. */
export interface KeyForget {
  of_knowledge?: boolean;
  call: "key.forget";
  ids?: string | Array<string> | null;
  where?: Record<string, any> | null;
  scrub?: "now" | "later" | null;
  dry_run?: boolean;
}

/** Keys, sorted. */
export interface KeyPage {
  keys: Array<string>;
  /** Whether others follow. */
  more: boolean;
}

/** Return the items of all sets, or of those in *sets*, in one plane; see `MemorySet`. */
export interface KeyPoints {
  of_knowledge?: boolean;
  call: "key.points";
  sets?: Array<string> | null;
  where?: Record<string, any> | null;
  limit?: number | null;
}

/** Search sets together, all of them unless *sets* names some; see `MemorySet.search`. */
export interface KeySearch {
  of_knowledge?: boolean;
  call: "key.search";
  query: string;
  sets?: Array<string> | null;
  prefix?: string | null;
  limit?: number;
  where?: Record<string, any> | null;
  as_of?: number | string | null;
  signals?: Signals | null;
  valid_at?: string | "any" | null;
  min_score?: number | null;
  reranker?: "as the memory was opened" | null;
}

/** Return the names of the sets that something was added to, sorted. */
export interface KeySets {
  of_knowledge?: boolean;
  call: "key.sets";
  prefix?: string;
  counts?: boolean;
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
  options?: LearnSettings | null;
}

/** How messages are read. */
export interface LearnOptions {
  batch_messages?: number;
  batch_tokens?: number;
  tries?: number;
  skipped?: "leave" | "retry";
  at_least?: number;
  idle_s?: number;
  calls_per_hour?: number | null;
}

/** What `KeyMemory.learn` did. */
export interface LearnReport {
  added?: Array<Fact>;
  confirmed?: Array<string>;
  superseded?: Array<string>;
  contradicted?: Array<string>;
  taken_back?: Array<string>;
  refused?: Record<string, number>;
  model_calls?: number;
  messages?: number;
  set_aside?: number;
  waiting?: number;
  learnings?: Array<string>;
  commits?: Array<number>;
}

/** How messages are read; see `LearnOptions` of alveus. */
export interface LearnSettings {
  batch_messages?: number;
  batch_tokens?: number;
  tries?: number;
  skipped?: "leave" | "retry";
  at_least?: number;
  idle_s?: number;
  calls_per_hour?: number | null;
}

/** List names of fields in their own order, from one on, so many of them. */
export interface ListNames {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.names";
  prefix?: string;
  after?: string | null;
  limit?: number | null;
  newest_first?: boolean;
}

/** One message; an immutable value. */
export interface Message {
  content?: string;
  role?: "system" | "user" | "assistant" | "tool";
  name?: string | null;
  calls?: Array<string>;
  answers?: Array<string>;
}

/** Move a value, or an object with all below it. */
export interface MoveValue {
  call: "exact.move";
  /** The names from the root down. */
  path: Array<string>;
  /** The names from the root down. */
  new_path: Array<string>;
}

/** A set of the key, or of knowledge. */
export interface NamedSet {
  name?: string;
  knowledge?: boolean;
  definition?: DefinitionOptions | null;
  /** How it was made: if it was forgotten since, it is made so again. */
  made?: DefinitionOptions | null;
  ttl?: SetLife | null;
}

/** An item to be added. */
export interface NewItem {
  value?: any;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  /** Whose offset the item keeps: a name, or an offset; that of `time`. */
  timezone?: string | null;
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
  sources?: Array<string> | null;
  until?: string | null;
  compacted?: boolean;
}

/** Items to be added in one commit. */
export interface NewItems {
  items: Array<NewItem>;
  on_existing?: "error" | "keep" | "update";
}

/** A value, or, without one, an object, of a tree that is copied. */
export interface NewNode {
  /** The names from the root down. */
  path: Array<string>;
  value?: any;
}

/** Make an object; one that is there stays. */
export interface NewObject {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.new_object";
  overwrite?: boolean;
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

/** Retire what is held; only the history keeps it, until its key is forgotten. */
export interface QuarantineDiscard {
  /** The set; left out: all of them. */
  name?: string | null;
  of_knowledge?: boolean;
  call: "quarantine.discard";
  id: string;
}

/** Return what is held under an id, or None. */
export interface QuarantineGet {
  /** The set; left out: all of them. */
  name?: string | null;
  of_knowledge?: boolean;
  call: "quarantine.get";
  id: string;
}

/** Return what is held, by set and time; all of it unless *limit* says so. */
export interface QuarantineList {
  /** The set; left out: all of them. */
  name?: string | null;
  of_knowledge?: boolean;
  call: "quarantine.list";
  limit?: number | null;
}

/** Move what is held into its set, in one commit; return its id there. */
export interface QuarantineRelease {
  /** The set; left out: all of them. */
  name?: string | null;
  of_knowledge?: boolean;
  call: "quarantine.release";
  id: string;
  by?: string | null;
}

export interface QuarantineSize {
  /** The set; left out: all of them. */
  name?: string | null;
  of_knowledge?: boolean;
  call: "quarantine.size";
}

/** The words of a message that a fact rests on. */
export interface Quotation {
  source?: string;
  start?: number;
  end?: number;
  text?: string;
}

/** The words of a message that a fact rests on. */
export interface QuotationAnswer {
  source: string;
  start: number;
  end: number;
  text: string;
}

/** Read the fields of an object; of those that are objects, only that they are. */
export interface ReadFields {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get_fields";
}

/** Read a value; of an object only that it is one. */
export interface ReadValue {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get";
}

/** What was erased: counts and digests, nothing of what was there. */
export interface ReceiptAnswer {
  id: string;
  time: string;
  commit: number | null;
  request: Record<string, any>;
  counts: Record<string, number>;
  derived: number;
  restored: number;
  lost: number;
  unread: number;
  state: "scrubbed" | "pending";
  blocked_by: Array<string>;
  open: Array<number>;
  out_of_reach: Array<OutOfReachAnswer>;
}

/** Receipts, the latest first. */
export interface ReceiptList {
  receipts: Array<ReceiptAnswer>;
}

/** Change how a set is kept; what is left out stays. */
export interface RedefineSet {
  set?: NamedSet;
  call: "set.redefine";
  definition: DefinitionOptions;
}

/** Remove a value, or an object with all below it. */
export interface RemoveValue {
  call: "exact.delete";
  /** The names from the root down. */
  path: Array<string>;
}

/** Whether there was something to remove. */
export interface Removed {
  removed: boolean;
}

/** Set a value if what is there is `expected`; without that: if nothing is there. */
export interface ReplaceValue {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.update";
  value: any;
  expected?: any;
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
  /** The days that the question names by a word such as "yesterday", and the zone. */
  dated: string | null;
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

/** Add items in one commit: all of them, or none; return their ids in order. */
export interface SetAddMany {
  set?: NamedSet;
  call: "set.add_many";
  items: Array<Item>;
  on_existing?: "error" | "keep" | "update";
  on_rejected?: "error" | "skip";
}

/** Return what the rules of the set say of a value, or an `Item`; stores nothing. */
export interface SetAdmit {
  set?: NamedSet;
  call: "set.admit";
  /** One thing that a memory set holds. */
  value: {
    value?: any;
    id?: string;
    text?: string;
    metadata?: Record<string, any>;
    importance?: number;
    speaker?: string | null;
    role?: string | null;
    session?: string | null;
    time?: string;
    sources?: Array<string>;
    compacted?: boolean;
    until?: string | null;
    expire_at?: string | null;
    valid_from?: string | null;
    valid_to?: string | null;
    ttl_s?: number | string | null;
    texts?: Array<string> | null;
    timezone?: any;
  };
}

/** A set, and how many items it has. */
export interface SetAndSize {
  name: string;
  items: number;
}

/** Return the compactions of the set, the latest first; *before* an id for older ones. */
export interface SetCompactions {
  set?: NamedSet;
  call: "set.compactions";
  before?: number | null;
  limit?: number;
}

/** What the set is kept by; of an empty one, what it will be with its next add. */
export interface SetDefinition {
  set?: NamedSet;
  call: "set.definition";
}

/** Retire items by id, or all that match *where*; return how many there were. */
export interface SetDelete {
  set?: NamedSet;
  call: "set.delete";
  ids?: string | Array<string> | null;
  where?: Record<string, any> | null;
  if_version?: number | null;
}

/** Erase items by id, or all of which a version matches *where*: for good. */
export interface SetForget {
  set?: NamedSet;
  call: "set.forget";
  ids?: string | Array<string> | null;
  where?: Record<string, any> | null;
  scrub?: "now" | "later" | null;
  dry_run?: boolean;
}

/** Return the item of an id, or None; for several ids, a list in their order. */
export interface SetGet {
  set?: NamedSet;
  call: "set.get";
  ids: string | Array<string>;
  as_of?: number | string | null;
}

/** Return every version of an item that is kept, oldest first, also after it was deleted. */
export interface SetHistory {
  set?: NamedSet;
  call: "set.history";
  id: string;
}

/** How long items of a set stay that do not say. */
export interface SetLife {
  after_s: number;
  refresh?: "write" | "read";
}

/** Return all that an item was derived from, to any depth, as a graph. */
export interface SetLineage {
  set?: NamedSet;
  call: "set.lineage";
  id: string;
}

/** Return all items (that match *where*), by time; nothing is cut unless *limit* says so. */
export interface SetList-Input {
  set?: NamedSet;
  call: "set.list";
  where?: Record<string, any> | null;
  limit?: number | null;
  after?: string | null;
  newest_first?: boolean;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** The sets of a key, or of knowledge. */
export interface SetList-Output {
  sets: Array<SetAndSize>;
}

/** Return all items (that match *where*) as points, near each other if they mean the same. */
export interface SetPoints {
  set?: NamedSet;
  call: "set.points";
  where?: Record<string, any> | null;
  limit?: number | null;
}

/** Retire the last *n* items by time and return them, oldest first; fewer if there are. */
export interface SetPop {
  set?: NamedSet;
  call: "set.pop";
  n?: number;
}

/** Return the last *n* items by time, oldest first; 0 gives none. */
export interface SetRecent {
  set?: NamedSet;
  call: "set.recent";
  n?: number;
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Have items that expire live for *ttl* from now on; return how many now live longer. */
export interface SetRenew {
  set?: NamedSet;
  call: "set.renew";
  ids: string | Array<string>;
  ttl_s: number;
}

/** Return the items that answer *query* best, by words, meaning and signals. */
export interface SetSearch {
  set?: NamedSet;
  call: "set.search";
  query: string;
  limit?: number;
  where?: Record<string, any> | null;
  as_of?: number | string | null;
  signals?: Signals | null;
  valid_at?: string | "any" | null;
  min_score?: number | null;
  reranker?: "as the memory was opened" | null;
}

export interface SetSize {
  set?: NamedSet;
  call: "set.size";
}

/** Return the items that an item was derived from, as they were then, oldest first. */
export interface SetSources {
  set?: NamedSet;
  call: "set.sources";
  id: string;
}

/** Say what holds instead of an item from *at* on; return the id of the new item. */
export interface SetSupersede {
  set?: NamedSet;
  call: "set.supersede";
  id: string;
  /** One thing that a memory set holds. */
  value: {
    value?: any;
    id?: string;
    text?: string;
    metadata?: Record<string, any>;
    importance?: number;
    speaker?: string | null;
    role?: string | null;
    session?: string | null;
    time?: string;
    sources?: Array<string>;
    compacted?: boolean;
    until?: string | null;
    expire_at?: string | null;
    valid_from?: string | null;
    valid_to?: string | null;
    ttl_s?: number | string | null;
    texts?: Array<string> | null;
    timezone?: any;
  };
  at?: string | null;
  new_id?: string | null;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  metadata?: Record<string, any> | null;
  importance?: number;
  speaker?: string | null;
  role?: string | null;
  session?: string | null;
  expire_at?: string | null;
  ttl_s?: number | string | null;
  valid_from?: string | null;
  valid_to?: string | null;
  timezone?: any;
}

/** Bring back what a compaction retired, as it was, and remove what stood for it. */
export interface SetUndo {
  set?: NamedSet;
  call: "set.undo";
  compaction: number;
}

/** Change what is passed of an item, as a new version of it; return that. */
export interface SetUpdate {
  set?: NamedSet;
  call: "set.update";
  id: string;
  value?: any;
  if_version?: number | null;
  text?: string | null;
  texts?: Array<string> | null;
  time?: string | null;
  metadata?: Record<string, any> | null;
  importance?: number;
  speaker?: string | null;
  role?: string | null;
  session?: string | null;
  expire_at?: string | null;
  ttl_s?: number | string | null;
  valid_from?: string | null;
  valid_to?: string | null;
  timezone?: any;
}

/** How a budget is divided among the parts of a prompt. */
export interface Shares {
  exact?: number;
  knowledge?: number;
  recent?: number;
  items?: number;
  profile?: number;
  blocks?: number;
}

/** The weight of each signal in a score; 0 switches a signal off. */
export interface Signals {
  words?: number;
  meaning?: number;
  previous?: number;
  next?: number;
  reply?: number;
  speaker?: number;
  user?: number;
  date?: number;
  when?: number;
  session?: number;
  instruction?: number;
  short_question?: number;
  recency?: number;
  importance?: number;
  mean?: number;
  entities?: number;
  names?: number;
  decay?: number;
  half_life_days?: number;
  k1?: number;
  b?: number;
}

/** How large a memory is, and what waits. */
export interface StatsAnswer {
  space: string;
  knowledge: string;
  embedder: string;
  pending: number | null;
  queue_age_s: number | null;
  failure: string | null;
  store: StoreFigures | null;
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

/** Read an object and all below it: a node each, objects before their fields. */
export interface Subtree {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.to_dict";
}

/** A version of an item that a batch changes; 0 where it adds one. */
export interface TouchedItem {
  key: string | null;
  set: string;
  id: string;
  version: number;
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

/** Set a value. */
export interface WriteValue {
  /** The names from the root down. */
  path: Array<string>;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
  expires_at?: string | null;
  call: "exact.set";
  value: any;
}

/** A server of alveus. */
export class Alveus extends Connection {
  /** Add items, all in one commit. */
  addItems(query: {
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
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
    key?: string;
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
    key?: string;
  }, options?: GuardedWriteOptions): Promise<DeletedCount>;
  /** Discard an item in quarantine. */
  discardHeld(query: {
    /** The id of an item. */
    id: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
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
    key?: string;
    knowledge?: boolean;
  }, options?: CallOptions): AsyncGenerator<any, void>;
  /** Follow the number of the last commit of the store, as server-sent events. */
  followCommits(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent<any>, never>;
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
    key?: string;
    prefix?: string;
    /** The number of a commit. */
    after?: number | null;
  }, options?: CallOptions): AsyncGenerator<ServerEvent<CommitAnswer>, never>;
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
   * Commits of other spaces are left out; where there are many, there may be fewer than `limit`.
   */
  listCommits(query?: {
    /** The space. */
    space?: string;
    before?: number | null;
    limit?: number;
  }, options?: CallOptions): Promise<CommitPage>;
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
    key?: string;
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
    key?: string;
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
    key?: string;
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
    key?: string;
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
    key?: string;
  }, options?: CallOptions): Promise<RunList>;
  /** List the sets of a key, or of knowledge. */
  listSets(query?: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, options?: CallOptions): Promise<SetList-Output>;
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
    key?: string;
  }, options?: CallOptions): Promise<ItemVersions>;
  /**
   * Make several calls in one commit: all of them, or, if one is refused, none.
   *
   * A program that needs answers on the way asks with `dry_run` after each call: with all its calls
   * so far, one `Idempotency-Key`, and the `base` of the first answer. In the end it asks without
   * `dry_run`, with the calls that write, and with `touched` of the last answer.
   */
  makeBatch(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: BatchBody, options?: WriteOptions): Promise<BatchAnswer>;
  /** Make one call of the memory of a key, or of knowledge, by its name in Python. */
  makeCall(query: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, body: ReadValue | HasValue | FieldNames | ListNames | ReadFields | Subtree | WriteValue | NewObject | RemoveValue | MoveValue | ClearObject | AppendValue | IncrementValue | ReplaceValue | CopyObject | SetAddMany | SetGet | SetList-Input | SetRecent | SetHistory | SetSearch | SetPoints | SetUpdate | SetSupersede | SetDelete | SetPop | SetRenew | SetForget | SetCompactions | SetUndo | SetSources | SetLineage | SetAdmit | SetSize | SetDefinition | RedefineSet | KeyContext | KeySearch | KeyPoints | KeySets | KeyForget | CompareMoments | QuarantineList | QuarantineGet | QuarantineRelease | QuarantineDiscard | QuarantineSize | ConversationAdd | ConversationGetMemory | ConversationMessages | ConversationSize | ConversationClear | ConversationUpdateMessagesMark | ConversationUpdateCompressedSummary | ConversationCompress | ConversationUncompress | ConversationStateDict | ConversationLoadStateDict | ConversationSummary | FactsList | FactsGet | FactsHistory | FactsLearnings | FactsCost | FactsAbout | FactsEntities | FactsNeighbours | FactsTimeline | FactsProfile | FactsMerge | FactsSplit | FactsWhy | FactsCheck | FactsUndo | FactsSize, options?: WriteOptions): Promise<CallAnswer>;
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
    key?: string;
  }, options?: CallOptions): Promise<ItemMap>;
  /** Tell which items a compaction retired, and which stand for them, `MOST_SHOWN` of each. */
  readCompaction(query: {
    /** The id of a compaction. */
    id: number;
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
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
   * `commits` are those there were, `items` those of the items that are there now; of all spaces,
   * so a token that is for one alone is refused.
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
    key?: string;
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
    key?: string;
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
    key?: string;
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
  /**
   * Read how large the store is, and what waits.
   *
   * Figures of all spaces are null for a token that is for one space alone.
   */
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
    key?: string;
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
    key?: string;
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
