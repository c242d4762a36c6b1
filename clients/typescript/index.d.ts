// Written by tools/make_typescript.py from the description of the server: `make docs`.

import { CallOptions, Connection, GuardedWriteOptions, ServerEvent, WriteOptions } from "./connection.js";

export * from "./connection.js";

/** The ids of the added items, in the order of the request. */
export interface AddedIds {
  ids: Array<string>;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** The results of a batch's calls, and its commit, if it changed anything. */
export interface BatchAnswer {
  /** Exact memory was read as it was after this commit. */
  base: number;
  answers: Array<CallAnswer>;
  touched: Array<TouchedItem>;
  /** Whether it changes anything. */
  changes: boolean;
  commit: BatchCommit | null;
}

/** Calls that are committed together, or not at all. */
export interface BatchBody {
  calls: Array<ExactIsExist | ExactGetFieldNames | ExactNames | ExactDelete | ExactMove | ExactClear | ExactAppend | ExactIncrement | ExactSet | ExactNewObject | ReadValue | ReadFields | Subtree | ReplaceValue | CopyObject | SetAddMany | SetGet | SetList | SetRecent | SetHistory | SetSearch | SetPoints | SetUpdate | SetSupersede | SetDelete | SetPop | SetRenew | SetForget | SetCompactions | SetUndo | SetSources | SetLineage | SetAdmit | SetSize | SetDefinition | RedefineSet | KeyContext | KeySearch | KeyPoints | KeySets | KeyForget | KeyDiff | QuarantineList | QuarantineGet | QuarantineRelease | QuarantineDiscard | QuarantineSize | ConversationAdd | ConversationGetMemory | ConversationMessages | ConversationSize | ConversationClear | ConversationUpdateMessagesMark | ConversationUpdateCompressedSummary | ConversationCompress | ConversationUncompress | ConversationStateDict | ConversationLoadStateDict | ConversationSummary | FactsList | FactsGet | FactsHistory | FactsLearnings | FactsCost | FactsAbout | FactsEntities | FactsNeighbours | FactsTimeline | FactsProfile | FactsMerge | FactsSplit | FactsWhy | FactsCheck | FactsUndo | FactsSize>;
  /** Commit nothing; return the last answer. */
  dry_run?: boolean;
  /** Exact memory is read as it was after this commit. */
  base?: number | null;
  /** The calls depend on exact memory that a dry run read. */
  has_read?: boolean;
  /** How many of the calls a dry run has answered. */
  answered?: number;
  /** As a dry run answered; if it differs by now, nothing is committed. */
  touched?: Array<TouchedItem> | null;
}

/** The commit of a batch. Its time is in microseconds since 1970. */
export interface BatchCommit {
  number: number;
  time: number;
  /** It was made before, under the same idempotency key. */
  adopted: boolean;
}

/** The most tokens of a prompt, and the function that counts them. */
export interface Budget {
  /** Most tokens of the prompt; None if there is no limit. */
  tokens?: number | null;
  /** Tokens that each message has besides its text. */
  message_tokens?: number;
}

/** The fields of the Python call's result. There are none if the call returns None. */
export type CallAnswer = Record<string, any>;

/** A commit: the numbers of changed values and items, and the first few of each. */
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

/** Commits, latest first. */
export interface CommitPage {
  commits: Array<CommitAnswer>;
  /** Go on with it as `before`; null: that was all. */
  next: number | null;
}

/** A finished compaction. */
export interface CompactionInfoAnswer {
  /** The id that `MemorySet.undo` takes. */
  id: number;
  /** The number of its commit. */
  commit: number;
  time: string;
  /** The name and settings of its strategy. */
  strategy: Record<string, any>;
  /** Its executor: "sync", "background", "external" or "call". */
  by: string;
  /** Number of retired items, without items that were erased since. */
  retired: number;
  /** Ids of the items that replace retired items, without items that were erased since. */
  added: Array<string>;
  /** Number of retired and added items that were erased since. */
  erased: number;
  /** The number of the commit that undid the compaction, or None if it was not undone. */
  undone: number | null;
  /** Further facts, such as the number of summaries by a model. */
  notes: Record<string, any>;
}

/** Compactions, the latest first. */
export interface CompactionList {
  compactions: Array<CompactionInfoAnswer>;
}

/** A prompt made from memory. */
export interface ContextAnswer {
  /** The prompt as messages for a chat client or `ChatModel.complete`: instructions with the remembered data, the last exchanges, and the query. */
  messages: Array<Record<string, string>>;
  /** The same prompt as one text, for completion models. */
  text: string;
  /** The number of tokens of the messages, by the budget's counter. */
  tokens: number;
  /** The budget of the request, or None if it set no limit. */
  budget_tokens: number | null;
  /** The shown pieces, in order; then up to `LEFT_OUT` pieces that were left out. */
  why: Array<PieceAnswer>;
  /** The number of further left-out pieces. */
  more: number;
  /** Whether some searched items had no vector yet; see `Hits`. */
  partial: boolean;
  /** The reason why the re-ranker did not order the hits, or None; see `Hits`. */
  reranker_failure: string | null;
}

/** A request for a prompt. A field that is null has its default. */
export interface ContextBody {
  query: string | null;
  limit?: number | null;
  /** The most tokens of the prompt; a `Budget` also names the counter. */
  budget_tokens?: number | Budget | null;
  /** Instructions, at the start of the prompt. */
  system?: string | null;
  /** The name of the set with the conversation. The default is the key's set of messages or observations with the latest add. With None, no conversation is shown. */
  messages?: string | "newest" | null;
  /** The most exchanges of the conversation. */
  recent?: number | null;
  /** The names of the key's sets to search. With None, no set is searched. */
  sets?: Array<string> | "all" | null;
  /** The names of the knowledge sets to search. With None, none is searched. */
  knowledge?: Array<string> | "all" | null;
  /** The exact values of short-term memory to show: a path or a list of paths, each with all values below it, or `ALL`. By default none are shown, since values may include a session token; `Context.why` reports their number. */
  exact?: Array<string | Array<string>> | "all" | null;
  /** The name of an entity. Up to 300 tokens of its `KeyMemory.profile` are shown. With None, no profile is shown. */
  profile?: string | null;
  /** The names of the blocks to show whole, or `ALL`. */
  blocks?: Array<string> | "all" | null;
  /** A filter for items of sets and of knowledge; see `MemorySet.search`. */
  where?: Record<string, any> | null;
  /** Read the memory as of this moment of the past. */
  as_of?: number | string | null;
  /** The time at which items must be valid, by default now (or *as_of*). With "any", the time does not matter. */
  valid_at?: string | "any" | null;
  /** Weights of the searches. */
  signals?: Signals | null;
  /** Re-ranks the hits of each search; see `MemorySet.search`. The default is the re-ranker of `Memory.open`, if any. With None, hits are not re-ranked. */
  reranker?: "as the memory was opened" | null;
  /** Leave out all hits of a search if the relevance of the best hit, 0..1, is lower. 0 leaves out nothing. By default, small sets are shown whole, and items of larger ones get as many tokens as the query seems to need; the page "Prompts" has the rules. */
  min_score?: number | null;
  /** What becomes of items that a later item replaces; see `MemorySet.search`. "fold" and "hide" leave them out. */
  superseded?: "fold" | "show" | "hide";
  /** The division of the budget among the parts. */
  shares?: {
    /** The share of exact values, if the request names any. */
    exact?: number;
    /** The share of items of knowledge. */
    knowledge?: number;
    /** The share of the last exchanges. */
    recent?: number;
    /** The share of items of the key's sets. */
    items?: number;
    /** The share of the profile, if the request names one. */
    profile?: number;
    /** The share of blocks, if the request names any. */
    blocks?: number;
  };
  /** "mask" replaces each secret in remembered data by its kind, as detected by the admission rule `Secrets`; "show" does not. Instructions and query are never changed. */
  secrets?: "mask" | "show";
  /** "show" starts each remembered line with its set, id and time. "hide" shows only the day, once above all items of the day. `Context.why` has all details in both cases. */
  details?: "hide" | "show";
}

/** Add one message or several; return their ids, in order. */
export interface ConversationAdd {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.add";
  messages: Record<string, any> | Message | Array<Record<string, any> | Message> | null;
  /** The marks of the messages. */
  marks?: string | Array<string> | null;
}

/** Delete all messages and the summary; return the number of messages. */
export interface ConversationClear {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.clear";
}

/** Summarize all messages except the newest. No message is lost. */
export interface ConversationCompress {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.compress";
  /** How many of the last messages to keep, by default three. A tool call with its answers counts as one message. */
  keep_recent?: number | null;
  /** If given, keep as many of the last messages as fit into this number of tokens, and of the message before them the last blocks that fit. *keep_recent* cannot be given as well. */
  keep_tokens?: number | null;
  /** Compress only if the summary and the messages after it have this many tokens or more. A `Budget` also sets the token counter. */
  trigger_tokens?: number | Budget | null;
  /** Tokens of the prompt outside of the conversation, such as instructions; they count for `trigger_tokens` and `keep_tokens`. */
  beside_tokens?: number;
  /** Most tokens of the summary. */
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
  /** Return only messages with this mark. */
  mark?: string | null;
  /** Return only messages without this mark. */
  exclude_mark?: string | null;
  /** Start with the summary, if there is one, as a user message with the id `SUMMARY`. */
  prepend_summary?: boolean;
  /** Return only the last *recent_n* messages; 0 returns none. If the first of them answers a tool call, the call and the messages after it are included. */
  recent_n?: number | null;
}

/** Replace the conversation by a result of `state_dict`, in one commit. */
export interface ConversationLoadStateDict {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.load_state_dict";
  state: Record<string, any>;
  /** True to raise for a state without content; False to treat this state as empty. */
  strict?: boolean;
}

/** Return the prompt of the conversation: the summary, and the messages after it. */
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
  /** Return messages in the form for a `ChatModel`: tool calls and other parts of the content are text, and urls are in a separate field. */
  for_chat?: boolean;
}

/** Return the number of messages. The summary does not count. */
export interface ConversationSize {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.size";
}

/** Return the whole conversation as JSON: its messages with their marks, and the summary. */
export interface ConversationStateDict {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.state_dict";
}

/** The summary of the messages with the mark `COMPRESSED`; "" if there is no summary. */
export interface ConversationSummary {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.summary";
}

/** Undo the last summary, and restore the previous summary, if there was one. */
export interface ConversationUncompress {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.uncompress";
}

/** Replace the summary, and in the same commit mark messages as compressed. */
export interface ConversationUpdateCompressedSummary {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.update_compressed_summary";
  /** The new text. "" removes the summary. */
  summary: string;
  /** Ids of messages that the summary covers, in addition to the messages that have the mark already. */
  msg_ids?: string | Array<string>;
}

/** Give messages a mark, remove a mark, or replace a mark by another. */
export interface ConversationUpdateMessagesMark {
  /** Its name; it is the set of that name. */
  conversation: string;
  /** Where it takes place; by default where the reader is. */
  timezone?: string | null;
  /** Whether `add` keeps a `timestamp` of the last minute. */
  keeps_times?: boolean;
  call: "conversation.update_messages_mark";
  /** The mark to add. If None, *old_mark* is removed. */
  new_mark?: string | null;
  /** If given, only messages with this mark change, and lose this mark. */
  old_mark?: string | null;
  /** If given, only these messages change. */
  msg_ids?: string | Array<string> | null;
}

/** Copy an object of this memory, or one in the request, with everything below it. */
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

/** The definition of a set. Omitted options have defaults. See `Definition` of alveus. */
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

/** The number of retired items. */
export interface DeletedCount {
  deleted: number;
}

/** The known facts about a person, a place or a thing. */
export interface EntityPageAnswer {
  /** All names of the entity. The first is the name of the page. */
  names: Array<string>;
  /** Valid facts about the entity, except relations, events and plans. */
  facts: Array<FactAnswer>;
  /** Valid facts about the entity that also name another entity. */
  relations: Array<FactAnswer>;
  /** Valid facts about another entity that name this entity. */
  mentions: Array<FactAnswer>;
  /** Events and plans that name the entity, by date. */
  timeline: Array<FactAnswer>;
  /** Ended facts about the entity, the last fact first. */
  history: Array<FactAnswer>;
}

/** The profile of an entity: sentences of facts with their sources. */
export interface EntityProfileAnswer {
  /** The name of the entity. */
  name: string;
  /** The facts in the profile, the most important ones first. */
  facts: Array<FactAnswer>;
  /** The number of tokens of the sentences. */
  tokens: number;
  /** The number of further facts that did not fit. */
  left_out: number;
  text: string;
}

/** Append *value* to the list at *path*; create a list if nothing is there. */
export interface ExactAppend {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.append";
  value: any;
  ttl_s?: number | null;
  expires_at?: string | null;
}

/** Delete all fields of this object. The object stays. */
export interface ExactClear {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.clear";
}

/** Delete the node at *path* and all nodes below it; return whether it existed. */
export interface ExactDelete {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.delete";
}

/** Return the names of the fields, in the order they were made. */
export interface ExactGetFieldNames {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get_field_names";
}

/** Add *by* to the number at *path*, 0 if nothing is there, and return the sum. */
export interface ExactIncrement {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.increment";
  by?: any;
  ttl_s?: number | null;
  expires_at?: string | null;
}

/** Return whether a value, None included, or an object is at *path*. */
export interface ExactIsExist {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.is_exist";
}

/** Move the node at *path*, and all nodes below it, to *new_path*, in one step. */
export interface ExactMove {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.move";
  new_path: Array<string>;
}

/** Return names of fields in the order of names: code points, a dot before a backslash. */
export interface ExactNames {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.names";
  /** Return only names that begin with this text. */
  prefix?: string;
  /** The last name of the page before. It need not exist any longer. */
  after?: string | null;
  /** Most names to return, 0 or more. */
  limit?: number | null;
  /** Return names from the last to the first. Names that rise with time, such as ids of version 7, then come newest first. */
  newest_first?: boolean;
}

/** Return the object at *path*; create it if nothing is there. An existing object stays. */
export interface ExactNewObject {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.new_object";
  /** Replace an existing value by an empty object. */
  overwrite?: boolean;
  ttl_s?: number | null;
  expires_at?: string | null;
}

/** Put *value* at *path*, replacing any value; create missing parent objects. */
export interface ExactSet {
  /** The names from the root down. */
  path: Array<string>;
  call: "exact.set";
  /** A storable value; or a MemoryObject of any memory, which is copied whole. */
  value: any;
  ttl_s?: number | null;
  expires_at?: string | null;
}

/** A value of exact memory. Bytes, NaN and large numbers are objects with one field. */
export interface ExactValue {
  path: string;
  value: any;
  /** Whether an object is there, and not a dict as a value. */
  is_object: boolean;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** A fact, read from its item in the set "facts". */
export interface Fact {
  id?: string;
  /** A sentence that can be understood alone. */
  text?: string;
  /** The person or thing that the fact is about. */
  subject?: string;
  /** "profile", "preference", "event", "plan", "relation" or "instruction". */
  kind?: string;
  /** People, places and things that the fact names. */
  entities?: Array<string>;
  /** The confidence of the model, 0..1. */
  confidence?: number;
  /** The words from which the fact was learned. */
  quotations?: Array<Quotation>;
  /** The name of the conversation with these words. */
  conversation?: string;
  /** Ids of the messages from which the fact was learned. */
  sources?: Array<string>;
  /** Start and end of an event or a plan, as far as known; both None for other kinds. */
  when?: Array<string | null>;
  /** The time zone of the dates, from the messages, such as "UTC-05:00". */
  zone?: string;
  /** Start and end of the validity of a fact of another kind; None if there is no start or end. */
  valid_from?: string | null;
  /** Start and end of the validity of a fact of another kind; None if there is no start or end. */
  valid_to?: string | null;
  /** Number of later messages that repeated the fact. */
  confirmed?: number;
  /** Ids of other facts. */
  replaces?: Array<string>;
  /** Ids of other facts. */
  replaced_by?: Array<string>;
  /** Ids of other facts. */
  contradicts?: Array<string>;
  /** The id of the learning that added the fact. */
  learning?: string;
  /** The model that found the fact, and the version of the prompt. */
  model?: string;
  /** The model that found the fact, and the version of the prompt. */
  prompt?: string;
  /** The version of the item. */
  version?: number;
  /** The time at which the fact was deleted, taken back or undone; None if it is live. */
  retired?: string | null;
}

/** A fact, read from its item in the set "facts". */
export interface FactAnswer {
  id: string;
  /** A sentence that can be understood alone. */
  text: string;
  /** The person or thing that the fact is about. */
  subject: string;
  /** "profile", "preference", "event", "plan", "relation" or "instruction". */
  kind: string;
  /** People, places and things that the fact names. */
  entities: Array<string>;
  /** The confidence of the model, 0..1. */
  confidence: number;
  /** The words from which the fact was learned. */
  quotations: Array<QuotationAnswer>;
  /** The name of the conversation with these words. */
  conversation: string;
  /** Ids of the messages from which the fact was learned. */
  sources: Array<string>;
  /** Start and end of an event or a plan, as far as known; both None for other kinds. */
  when: Array<string | null>;
  /** The time zone of the dates, from the messages, such as "UTC-05:00". */
  zone: string;
  /** Start and end of the validity of a fact of another kind; None if there is no start or end. */
  valid_from: string | null;
  /** Start and end of the validity of a fact of another kind; None if there is no start or end. */
  valid_to: string | null;
  /** Number of later messages that repeated the fact. */
  confirmed: number;
  /** Ids of other facts. */
  replaces: Array<string>;
  /** Ids of other facts. */
  replaced_by: Array<string>;
  /** Ids of other facts. */
  contradicts: Array<string>;
  /** The id of the learning that added the fact. */
  learning: string;
  /** The model that found the fact, and the version of the prompt. */
  model: string;
  /** The model that found the fact, and the version of the prompt. */
  prompt: string;
  /** The version of the item. */
  version: number;
  /** The time at which the fact was deleted, taken back or undone; None if it is live. */
  retired: string | null;
}

/** What was learnt. */
export interface FactList {
  facts: Array<FactAnswer>;
}

/** Return the page of a person, a place or a thing. */
export interface FactsAbout {
  call: "facts.about";
  /** Any name of the entity. Case does not matter. */
  name: string;
  /** Use the facts and names of a moment of the past. */
  as_of?: number | string | null;
  /** The time at which facts must be valid: by default now, or *as_of* if it is given. Facts that ended before are history, and facts that begin later are left out. "any" treats all facts as valid. */
  valid_at?: string | "any" | null;
}

/** Return the facts whose sources are missing or changed; an empty list if all are valid. */
export interface FactsCheck {
  call: "facts.check";
}

/** Return what `KeyMemory.learn` would cost now for a conversation. */
export interface FactsCost {
  call: "facts.cost";
  conversation: string;
  options?: LearnOptions | null;
}

/** Return the people, places and things that facts name, each with its number of facts. */
export interface FactsEntities {
  call: "facts.entities";
  as_of?: number | string | null;
  valid_at?: string | "any" | null;
}

/** Return the fact with an id, or None if it does not exist. */
export interface FactsGet {
  call: "facts.get";
  id: string;
}

/** Return every kept version of a fact, oldest first. */
export interface FactsHistory {
  call: "facts.history";
  id: string;
}

/** Return the learnings of the key, the last first, at most *limit*. */
export interface FactsLearnings {
  call: "facts.learnings";
  limit?: number;
}

/** Return facts, in order of the times of their messages. */
export interface FactsList {
  call: "facts.list";
  /** Return only facts about this subject. Case does not matter. */
  subject?: string | null;
  /** Return only facts whose metadata match this filter; see `MemorySet.list`. */
  where?: Record<string, any> | null;
  limit?: number | null;
  as_of?: number | string | null;
  /** Return only facts that are valid at this time. By default return all facts, even ended facts. */
  valid_at?: string | "any" | null;
}

/** Make other names refer to the entity *name*; return the page of the entity. */
export interface FactsMerge {
  call: "facts.merge";
  /** The name of the page. */
  name: string;
  others: Array<string>;
}

/** Return the entities that facts connect with the entity *name*, the nearest first. */
export interface FactsNeighbours {
  call: "facts.neighbours";
  name: string;
  /** Most steps. One step leads to the entities that share a fact with *name*. */
  steps?: number;
  /** See `about`. */
  as_of?: number | string | null;
  /** See `about`. */
  valid_at?: string | "any" | null;
}

/** Return the profile of an entity: its valid facts, within a budget of tokens. */
export interface FactsProfile {
  call: "facts.profile";
  /** A name of the entity. By default, the entity with the most facts is taken. */
  name?: string | null;
  /** Most tokens of the profile. */
  budget?: number;
  /** See `about`. */
  as_of?: number | string | null;
  /** See `about`. */
  valid_at?: string | "any" | null;
}

export interface FactsSize {
  call: "facts.size";
}

/** Make another name of an entity refer to a separate entity again. */
export interface FactsSplit {
  call: "facts.split";
  name: string;
}

/** Return events and plans by date. Events and plans without a date are last. */
export interface FactsTimeline {
  call: "facts.timeline";
  /** If given, return only facts that name this entity. */
  name?: string | null;
  /** See `about`. */
  as_of?: number | string | null;
  /** Return only events and plans that happen at this time. By default, and with "any", return all. */
  valid_at?: string | "any" | null;
}

/** Undo learnings, in one commit; return the number of facts that the undo removes. */
export interface FactsUndo {
  call: "facts.undo";
  /** Ids of learnings, or results of `KeyMemory.learn`. */
  learnings: Array<string | LearnReport>;
}

/** Return the origin of a fact: its messages, its learning, and the facts it replaced. */
export interface FactsWhy {
  call: "facts.why";
  fact: string | Fact;
}

/** An error: the name of its class, a message with a remedy, and its attributes. */
export interface Fault {
  type: string;
  message: string;
  facts: Record<string, any>;
}

/** The data to erase: items by id, items by filter, or the whole key. */
export interface ForgetBody {
  ids?: Array<string> | null;
  where?: Record<string, any> | null;
  /** Erase all of the key. */
  everything?: boolean;
  dry_run?: boolean;
}

/** The id of an item that left the quarantine: after a release, its id in the set. */
export interface HeldId {
  id: string;
}

/** What rules of admission hold back. */
export interface HeldList {
  held: Array<QuarantinedAnswer>;
}

/** An item that a search found. */
export interface HitAnswer {
  /** The item as it is now or, with ``as_of=``, as it was then. */
  item: ItemAnswer;
  /** The sum of `parts`. Scores are comparable within one search only. */
  score: number;
  /** The weighted parts of the score by name: ``words`` ``meaning`` ``previous`` ``next`` ``speaker`` ``date`` ``when`` …. Their sum is `score`. */
  parts: Record<string, number>;
  /** How likely the item is to bear on the question, from 0 to 1; comparable across searches. None unless the search was given a ``min_score``. */
  relevance: number | null;
  /** The found items that this item makes outdated, the latest first. They are not among the hits of the search. Empty with ``superseded="show"`` and ``"hide"``. */
  supersedes: Array<ItemAnswer>;
}

/** One item of a memory set. */
export interface Item {
  /** The remembered data; any storable value. */
  value?: any;
  /** The name of the item in its set; alveus makes one if none is given. */
  id?: string;
  /** The text that search reads, by meaning and by words. The default is a str value itself, or the ``text`` or ``content`` of a dict; other values need a text. */
  text?: string;
  /** Facts to filter by. Search also reads ``caption`` (a str or a list of them). */
  metadata?: Record<string, any>;
  /** A number from 0 to 1. */
  importance?: number;
  /** The name of the person or program that said the text. */
  speaker?: string | null;
  /** A role such as ``user`` or ``assistant``. The default comes from the speaker: ``user`` and ``human`` have the role ``user``; ``assistant``, ``ai`` and ``bot`` have the role ``assistant``. */
  role?: string | null;
  /** The conversation to which the item belongs. Search also looks at the items before and after the item in that conversation. */
  session?: string | null;
  /** When the remembered event happened; the default is the time of the commit. Returned times have the offset from UTC with which the item was added. Search for a day compares that day with the item's date at this offset. */
  time?: string;
  /** Ids of the items from which the item was derived. */
  sources?: Array<string>;
  /** Whether the item replaces its sources. */
  compacted?: boolean;
  /** The end of a span of time that begins at `time`; only for items that cover a span. */
  until?: string | null;
  /** From this time on, reads of the present exclude the item. An earlier update can move this time. */
  expire_at?: string | null;
  /** When the fact in the item began to hold, or None if it always held. */
  valid_from?: string | null;
  /** When the fact in the item ceased to hold, or None if it still holds. */
  valid_to?: string | null;
  /** Given by a user instead of *expire_at*: how long the item is kept after the call, a timedelta or text like ``"7d"`` (``s m h d w``). Items from alveus have none. */
  ttl_s?: number | string | null;
  /** Given by a user instead of *text*: up to 32 texts. Search by meaning compares each text and counts the best one; search by words reads all. Items from alveus have no *texts*: their *text* contains all texts, separated by U+001E and a line end. */
  texts?: Array<string> | null;
  /** Given by a user: the zone whose offset the item keeps, as a name, an offset or a tzinfo. The default is the zone of *time*, or else the zone of the memory. Items from alveus have none. */
  timezone?: any;
}

/** One item of a memory set. */
export interface ItemAnswer {
  /** The remembered data; any storable value. */
  value: any;
  /** The name of the item in its set; alveus makes one if none is given. */
  id: string;
  /** The text that search reads, by meaning and by words. The default is a str value itself, or the ``text`` or ``content`` of a dict; other values need a text. */
  text: string;
  /** Facts to filter by. Search also reads ``caption`` (a str or a list of them). */
  metadata: Record<string, any>;
  /** A number from 0 to 1. */
  importance: number;
  /** The name of the person or program that said the text. */
  speaker: string | null;
  /** A role such as ``user`` or ``assistant``. The default comes from the speaker: ``user`` and ``human`` have the role ``user``; ``assistant``, ``ai`` and ``bot`` have the role ``assistant``. */
  role: string | null;
  /** The conversation to which the item belongs. Search also looks at the items before and after the item in that conversation. */
  session: string | null;
  /** When the remembered event happened; the default is the time of the commit. Returned times have the offset from UTC with which the item was added. Search for a day compares that day with the item's date at this offset. */
  time: string;
  /** Time of the commit that added the item. */
  created: string;
  /** Time of the commit that made this version. */
  updated: string;
  /** When a search or a get last returned the item, or None. The time may lag: a killed process loses the times that it had noted since its last commit. */
  accessed: string | null;
  /** Ids of the items from which the item was derived. */
  sources: Array<string>;
  /** Whether the item replaces its sources. */
  compacted: boolean;
  /** The end of a span of time that begins at `time`; only for items that cover a span. */
  until: string | null;
  /** From this time on, reads of the present exclude the item. An earlier update can move this time. */
  expire_at: string | null;
  /** When the fact in the item began to hold, or None if it always held. */
  valid_from: string | null;
  /** When the fact in the item ceased to hold, or None if it still holds. */
  valid_to: string | null;
  /** The number of the version: 1, 2, …; it rises with each change. */
  version: number;
  /** The name of the set to which the item belongs. */
  set: string;
  /** In a history: when this version ceased to be the live one, or None. */
  retired: string | null;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** The changed fields of an item. Omitted fields keep their values. */
export interface ItemBody {
  value?: any;
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

/** Ids of items of a set. */
export interface ItemIds {
  ids: Array<string>;
}

/** A map of items, similar ones close together, as columns of one length. */
export interface ItemMap {
  ids: Array<string>;
  x: Array<number>;
  y: Array<number>;
  /** Seconds since 1970. */
  times: Array<number>;
  sets: Array<string>;
  /** Positions in `sets`. */
  set: Array<number>;
  speakers: Array<string>;
  /** Positions in `speakers`; -1: nobody. */
  speaker: Array<number>;
  /** How much of all differences the positions show, 0 to 1. */
  share: number;
  /** Items that wait for their vectors, or have no text. */
  unplaced: number;
  /** Items beyond the limit. */
  left_out: number;
}

/** An item that a commit wrote or deleted. */
export interface ItemOfCommit {
  kind: "written" | "removed";
  set: string;
  id: string;
  version: number;
}

/** Items, in the order that was asked for. */
export interface ItemPage {
  items: Array<ItemAnswer>;
  more: boolean;
}

/** Versions of an item, the oldest first. */
export interface ItemVersions {
  versions: Array<ItemAnswer>;
}

/** Return a prompt for *query* from the key's memory, with the reason for each piece. */
export interface KeyContext {
  of_knowledge?: boolean;
  call: "key.context";
  /** The user's question. With None there is no query and no search. */
  query: string | null;
  /** The most tokens of the prompt; a `Budget` also names the counter. */
  budget_tokens?: number | Budget | null;
  /** Instructions, at the start of the prompt. */
  system?: string | null;
  /** The name of the set with the conversation. The default is the key's set of messages or observations with the latest add. With None, no conversation is shown. */
  messages?: string | "newest" | null;
  /** The most exchanges of the conversation. */
  recent?: number | null;
  /** The names of the key's sets to search. With None, no set is searched. */
  sets?: Array<string> | "all" | null;
  /** The names of the knowledge sets to search. With None, none is searched. */
  knowledge?: Array<string> | "all" | null;
  /** The exact values of short-term memory to show: a path or a list of paths, each with all values below it, or `ALL`. By default none are shown, since values may include a session token; `Context.why` reports their number. */
  exact?: Array<string | Array<string>> | "all" | null;
  /** The name of an entity. Up to 300 tokens of its `KeyMemory.profile` are shown. With None, no profile is shown. */
  profile?: string | null;
  /** The names of the blocks to show whole, or `ALL`. */
  blocks?: Array<string> | "all" | null;
  /** A filter for items of sets and of knowledge; see `MemorySet.search`. */
  where?: Record<string, any> | null;
  /** Read the memory as of this moment of the past. */
  as_of?: number | string | null;
  /** The time at which items must be valid, by default now (or *as_of*). With "any", the time does not matter. */
  valid_at?: string | "any" | null;
  /** Weights of the searches. */
  signals?: Signals | null;
  /** The most hits of a search, by default as many as the budget may have room for. */
  limit?: number | null;
  /** Re-ranks the hits of each search; see `MemorySet.search`. The default is the re-ranker of `Memory.open`, if any. With None, hits are not re-ranked. */
  reranker?: "as the memory was opened" | null;
  /** Leave out all hits of a search if the relevance of the best hit, 0..1, is lower. 0 leaves out nothing. By default, small sets are shown whole, and items of larger ones get as many tokens as the query seems to need; the page "Prompts" has the rules. */
  min_score?: number | null;
  /** What becomes of items that a later item replaces; see `MemorySet.search`. "fold" and "hide" leave them out. */
  superseded?: "fold" | "show" | "hide";
  /** The division of the budget among the parts. */
  shares?: {
    /** The share of exact values, if the request names any. */
    exact?: number;
    /** The share of items of knowledge. */
    knowledge?: number;
    /** The share of the last exchanges. */
    recent?: number;
    /** The share of items of the key's sets. */
    items?: number;
    /** The share of the profile, if the request names one. */
    profile?: number;
    /** The share of blocks, if the request names any. */
    blocks?: number;
  };
  /** "mask" replaces each secret in remembered data by its kind, as detected by the admission rule `Secrets`; "show" does not. Instructions and query are never changed. */
  secrets?: "mask" | "show";
  /** "show" starts each remembered line with its set, id and time. "hide" shows only the day, once above all items of the day. `Context.why` has all details in both cases. */
  details?: "hide" | "show";
}

/** Return the changes in this memory between two moments: commits or times. */
export interface KeyDiff {
  of_knowledge?: boolean;
  call: "key.diff";
  a: number | string;
  /** The later moment; None means now. */
  b?: number | string | null;
  /** The names of the sets to compare, by default all sets; pass ``[]`` for none. */
  sets?: Array<string> | null;
  /** "skip" leaves out the exact tree. */
  tree?: "show" | "skip";
}

/** Erase the whole key, or some of its items, for good; return the receipt. */
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

/** Return the items of *sets*, by default all, as points; see `MemorySet.points`. */
export interface KeyPoints {
  of_knowledge?: boolean;
  call: "key.points";
  sets?: Array<string> | null;
  where?: Record<string, any> | null;
  limit?: number | null;
}

/** Search several sets together, by default all of them; see `MemorySet.search`. */
export interface KeySearch {
  of_knowledge?: boolean;
  call: "key.search";
  query: string;
  /** The names of the sets to search. */
  sets?: Array<string> | null;
  /** Search the sets whose names have this prefix. Pass either *sets* or *prefix*. */
  prefix?: string | null;
  limit?: number;
  where?: Record<string, any> | null;
  as_of?: number | string | null;
  signals?: Signals | null;
  valid_at?: string | "any" | null;
  min_score?: number | null;
  reranker?: "as the memory was opened" | null;
  superseded?: "fold" | "show" | "hide";
}

/** Return the names of the sets that have had an item, sorted. */
export interface KeySets {
  of_knowledge?: boolean;
  call: "key.sets";
  /** Return only names with this prefix. */
  prefix?: string;
  /** Whether to return a dict from each name to the set's number of items. This is fast, because each set stores its number of items. */
  counts?: boolean;
}

/** Texts to learn facts from, or a conversation of the key. */
export interface LearnBody {
  texts?: Array<string> | null;
  conversation?: string | null;
  options?: LearnOptions | null;
}

/** Options of `learn`. */
export interface LearnOptions {
  /** Most messages in one model call. */
  batch_messages?: number;
  /** Most tokens of these messages together. A longer message is sent alone. */
  batch_tokens?: number;
  /** Number of calls of `learn` in a row in which the model fails to give a usable answer about a batch, after which the batch is set aside and the next batch is read. */
  tries?: number;
  /** "leave" skips messages that were set aside; "retry" reads them again. */
  skipped?: "leave" | "retry";
  /** Least number of waiting messages. If fewer wait, no message is read. */
  at_least?: number;
  /** Time that must have passed since the last message was added. Before, no message is read. */
  idle_s?: number;
  /** Most model calls in one hour of the clock, counted over all processes that learn in the space with this option. A call is counted before it is made. By default there is no limit. */
  calls_per_hour?: number | null;
}

/** The result of `KeyMemory.learn`. */
export interface LearnReport {
  /** The new facts, in the order of the messages. */
  added?: Array<Fact>;
  /** Ids of known facts that were repeated, and so got more sources. */
  confirmed?: Array<string>;
  /** Ids of known facts that are no longer valid. */
  superseded?: Array<string>;
  /** Ids of known facts that a new fact contradicts; both are kept. */
  contradicted?: Array<string>;
  /** Ids of known facts that were retired because a message took them back. */
  taken_back?: Array<string>;
  /** Number of refused parts of the model's answers, by reason. */
  refused?: Record<string, number>;
  /** Number of model calls in this call. */
  model_calls?: number;
  /** Number of messages that were read. */
  messages?: number;
  /** Number of messages that this call set aside, because the model gives no usable answer about them. `LearnOptions(skipped="retry")` reads them again. */
  set_aside?: number;
  /** Number of messages left unread because the limit `LearnOptions.calls_per_hour` was reached. */
  waiting?: number;
  /** Ids of the learnings, one for each commit; `Facts.undo` takes them. */
  learnings?: Array<string>;
  /** The numbers of these commits. */
  commits?: Array<number>;
}

/** The result of `KeyMemory.learn`. */
export interface LearnReportAnswer {
  /** The new facts, in the order of the messages. */
  added: Array<FactAnswer>;
  /** Ids of known facts that were repeated, and so got more sources. */
  confirmed: Array<string>;
  /** Ids of known facts that are no longer valid. */
  superseded: Array<string>;
  /** Ids of known facts that a new fact contradicts; both are kept. */
  contradicted: Array<string>;
  /** Ids of known facts that were retired because a message took them back. */
  taken_back: Array<string>;
  /** Number of refused parts of the model's answers, by reason. */
  refused: Record<string, number>;
  /** Number of model calls in this call. */
  model_calls: number;
  /** Number of messages that were read. */
  messages: number;
  /** Number of messages that this call set aside, because the model gives no usable answer about them. `LearnOptions(skipped="retry")` reads them again. */
  set_aside: number;
  /** Number of messages left unread because the limit `LearnOptions.calls_per_hour` was reached. */
  waiting: number;
  /** Ids of the learnings, one for each commit; `Facts.undo` takes them. */
  learnings: Array<string>;
  /** The numbers of these commits. */
  commits: Array<number>;
  /** How many characters of the request were no text: U+FFFD replaces them. */
  replaced_characters?: number | null;
}

/** One message; an immutable value. */
export interface Message {
  /** The text of the message. */
  content?: string;
  /** The kind of speaker. */
  role?: "system" | "user" | "assistant" | "tool";
  /** The name of the speaker, for models that take names. */
  name?: string | null;
  /** Ids of the tool calls that the message asks for. A message that answers such a call belongs to this message: prompts show either both messages or none. */
  calls?: Array<string>;
  /** Ids of the tool calls that the message answers. */
  answers?: Array<string>;
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

/** Items to add in one commit. */
export interface NewItems {
  items: Array<Item>;
  on_existing?: "error" | "keep" | "update";
  /** "skip" leaves out rejected items; `skipped` of the returned list has their positions and the reasons. */
  on_rejected?: "error" | "skip";
}

/** A node of a copied tree: a value, or an object without one. */
export interface NewNode {
  /** The names from the root down. */
  path: Array<string>;
  value?: any;
}

/** A copy that may still contain forgotten data and that alveus cannot or must not change. */
export interface OutOfReachAnswer {
  /** The kind of copy. */
  what: string;
  /** The number of copies, or advice. */
  note: string;
  /** Paths of values in an exact tree. */
  paths: Array<string>;
  /** When the copy expires, as far as the store knows; "" if unknown. */
  until: string;
}

/** A piece of a prompt, or a candidate that was left out. */
export interface PieceAnswer {
  /** The part of the prompt. */
  part: "system" | "recent" | "blocks" | "profile" | "exact" | "knowledge" | "items" | "query";
  /** The origin of the piece: ``set/id``, or the path of an exact value, or "" for a text of the caller. */
  source: string;
  /** The text; secrets are masked unless the request shows them. */
  text: string;
  /** Whether the prompt contains the piece. */
  shown: boolean;
  /** Why the piece was shown or left out. */
  reason: string;
  /** The number of tokens of the piece alone. */
  tokens: number;
  /** The rank of the piece in its part. Rank 1 is the newest exchange, or the best hit. */
  rank: number;
  /** The set of the piece's items. */
  set: string | null;
  /** The ids of the piece's items; an exchange of several messages has several. */
  ids: Array<string>;
  /** The time of the item, or of the first item of an exchange. */
  time: string | null;
  /** The search score. */
  score: number | null;
  /** The components of the score; see `Hit`. */
  parts: Record<string, number>;
}

/** An error response. */
export interface Problem {
  error: Fault;
}

/** Retire a held item. Only the history keeps the item, until it is forgotten. */
export interface QuarantineDiscard {
  of_knowledge?: boolean;
  /** The set; left out: all of them. */
  name?: string | null;
  call: "quarantine.discard";
  id: string;
}

/** Return the held item with a quarantine id, or None if there is none. */
export interface QuarantineGet {
  of_knowledge?: boolean;
  /** The set; left out: all of them. */
  name?: string | null;
  call: "quarantine.get";
  id: string;
}

/** Return the held items, or the first *limit* of them, in order of set and time. */
export interface QuarantineList {
  of_knowledge?: boolean;
  /** The set; left out: all of them. */
  name?: string | null;
  call: "quarantine.list";
  limit?: number | null;
}

/** Move a held item into its set, in one commit; return its id in the set. */
export interface QuarantineRelease {
  of_knowledge?: boolean;
  /** The set; left out: all of them. */
  name?: string | null;
  call: "quarantine.release";
  id: string;
  by?: string | null;
}

export interface QuarantineSize {
  of_knowledge?: boolean;
  /** The set; left out: all of them. */
  name?: string | null;
  call: "quarantine.size";
}

/** A quarantined item. */
export interface QuarantinedAnswer {
  /** The id of the item in the quarantine. */
  id: string;
  /** The item as passed, with the id that it is to have in its set. */
  item: ItemAnswer;
  /** The name of the set to which it was added. */
  set: string;
  /** The name of the rule that held the item. */
  rule: string;
  /** The reason that the rule gave. */
  reason: string;
  /** The time of the add. */
  since: string;
}

/** Words of a message from which a fact was learned. */
export interface Quotation {
  /** The id of the message. */
  source?: string;
  /** The position of the words in the text of the message, in characters. */
  start?: number;
  /** The position of the words in the text of the message, in characters. */
  end?: number;
  /** The words. */
  text?: string;
}

/** Words of a message from which a fact was learned. */
export interface QuotationAnswer {
  /** The id of the message. */
  source: string;
  /** The position of the words in the text of the message, in characters. */
  start: number;
  /** The position of the words in the text of the message, in characters. */
  end: number;
  /** The words. */
  text: string;
}

/** Read the fields of an object. Of a nested object, the result says only that it is one. */
export interface ReadFields {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get_fields";
}

/** Read a value. For an object, the result says only that it is an object. */
export interface ReadValue {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.get";
}

/** The result of a `forget`: counts and digests, none of the erased data. */
export interface ReceiptAnswer {
  /** The id of the receipt. The store keeps the receipt if data was erased. */
  id: string;
  /** The time of the erasing. */
  time: string;
  /** The number of the commit that erased the data; None if no data existed, or for a dry run. */
  commit: number | null;
  /** Digests of the key, of sets and of ids in the request. */
  request: Record<string, any>;
  /** The number of erased records by kind; kinds without records are left out. */
  counts: Record<string, number>;
  /** Number of items erased because they were derived from erased items. */
  derived: number;
  /** Number of sources of the derived items that are live again. */
  restored: number;
  /** Number of derived items that cannot be made again, because their sources were purged. */
  lost: number;
  /** Number of erased outputs that a consumer had not read. */
  unread: number;
  /** "scrubbed" if every file of the store is free of the data. "pending" if the files may still contain the data, but no read returns it. */
  state: "scrubbed" | "pending";
  /** The causes that block the scrub, in words. */
  blocked_by: Array<string>;
  /** Unfinished runs that contain erased data. `Memory.scrub` deletes their records after they end. */
  open: Array<number>;
  /** Copies that may still contain the data. */
  out_of_reach: Array<OutOfReachAnswer>;
}

/** Receipts, the latest first. */
export interface ReceiptList {
  receipts: Array<ReceiptAnswer>;
}

/** Change the definition of a set. Omitted options keep their values. */
export interface RedefineSet {
  set?: NamedSet;
  call: "set.redefine";
  definition: DefinitionOptions;
}

/** Whether a value existed and was deleted. */
export interface Removed {
  removed: boolean;
}

/** Set a value if the current value is `expected`, or, without `expected`, if none exists. */
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

/** The run that has the input now: a retry may move the input to a new run. */
export interface RunChosen {
  run: number;
}

/** The error that parked a run. */
export interface RunError {
  action: string | null;
  type: string;
  message: string;
}

/** Runs, latest first. */
export interface RunList {
  runs: Array<RunAnswer>;
  more: boolean;
}

/** Items that answer a question, the best first. */
export interface SearchAnswer {
  partial: boolean;
  reranker_failure: string | null;
  dated: string | null;
  hits: Array<HitAnswer>;
}

/** A search for items. */
export interface SearchBody {
  limit?: number;
  query: string;
  /** The names of the sets to search. */
  sets?: Array<string> | null;
  /** Search the sets whose names have this prefix. Pass either *sets* or *prefix*. */
  prefix?: string | null;
  where?: Record<string, any> | null;
  as_of?: number | string | null;
  signals?: Signals | null;
  valid_at?: string | "any" | null;
  min_score?: number | null;
  reranker?: "as the memory was opened" | null;
  superseded?: "fold" | "show" | "hide";
}

/** Add items in one commit, all or none; return their ids in order. */
export interface SetAddMany {
  set?: NamedSet;
  call: "set.add_many";
  items: Array<Item>;
  on_existing?: "error" | "keep" | "update";
  /** "skip" leaves out rejected items; `skipped` of the returned list has their positions and the reasons. */
  on_rejected?: "error" | "skip";
}

/** Return the verdict of the set's rules on a value or an `Item`, without storing anything. */
export interface SetAdmit {
  set?: NamedSet;
  call: "set.admit";
  /** One item of a memory set. */
  value: {
    /** The remembered data; any storable value. */
    value?: any;
    /** The name of the item in its set; alveus makes one if none is given. */
    id?: string;
    /** The text that search reads, by meaning and by words. The default is a str value itself, or the ``text`` or ``content`` of a dict; other values need a text. */
    text?: string;
    /** Facts to filter by. Search also reads ``caption`` (a str or a list of them). */
    metadata?: Record<string, any>;
    /** A number from 0 to 1. */
    importance?: number;
    /** The name of the person or program that said the text. */
    speaker?: string | null;
    /** A role such as ``user`` or ``assistant``. The default comes from the speaker: ``user`` and ``human`` have the role ``user``; ``assistant``, ``ai`` and ``bot`` have the role ``assistant``. */
    role?: string | null;
    /** The conversation to which the item belongs. Search also looks at the items before and after the item in that conversation. */
    session?: string | null;
    /** When the remembered event happened; the default is the time of the commit. Returned times have the offset from UTC with which the item was added. Search for a day compares that day with the item's date at this offset. */
    time?: string;
    /** Ids of the items from which the item was derived. */
    sources?: Array<string>;
    /** Whether the item replaces its sources. */
    compacted?: boolean;
    /** The end of a span of time that begins at `time`; only for items that cover a span. */
    until?: string | null;
    /** From this time on, reads of the present exclude the item. An earlier update can move this time. */
    expire_at?: string | null;
    /** When the fact in the item began to hold, or None if it always held. */
    valid_from?: string | null;
    /** When the fact in the item ceased to hold, or None if it still holds. */
    valid_to?: string | null;
    /** Given by a user instead of *expire_at*: how long the item is kept after the call, a timedelta or text like ``"7d"`` (``s m h d w``). Items from alveus have none. */
    ttl_s?: number | string | null;
    /** Given by a user instead of *text*: up to 32 texts. Search by meaning compares each text and counts the best one; search by words reads all. Items from alveus have no *texts*: their *text* contains all texts, separated by U+001E and a line end. */
    texts?: Array<string> | null;
    /** Given by a user: the zone whose offset the item keeps, as a name, an offset or a tzinfo. The default is the zone of *time*, or else the zone of the memory. Items from alveus have none. */
    timezone?: any;
  };
}

/** A set and its number of items. */
export interface SetAndSize {
  name: string;
  items: number;
}

/** Return the compactions of the set, latest first. */
export interface SetCompactions {
  set?: NamedSet;
  call: "set.compactions";
  /** Return only compactions older than the one with this id. By default all. */
  before?: number | null;
  limit?: number;
}

/** The definition of the set. For an empty set, the definition that the next add commits. */
export interface SetDefinition {
  set?: NamedSet;
  call: "set.definition";
}

/** Retire items by id, or all items that match *where*; return the number of retired items. */
export interface SetDelete {
  set?: NamedSet;
  call: "set.delete";
  ids?: string | Array<string> | null;
  where?: Record<string, any> | null;
  if_version?: number | null;
}

/** Erase items for good: by id, or all items with a version that matches *where*. */
export interface SetForget {
  set?: NamedSet;
  call: "set.forget";
  ids?: string | Array<string> | null;
  where?: Record<string, any> | null;
  /** "now" also removes the data from the files; "later" leaves that to `Memory.scrub`. By default "now" if the store is under 200 MB, otherwise "later". */
  scrub?: "now" | "later" | null;
  /** True to count what would be erased, and erase nothing. */
  dry_run?: boolean;
}

/** Return the item with an id, or None if it does not exist. */
export interface SetGet {
  set?: NamedSet;
  call: "set.get";
  ids: string | Array<string>;
  as_of?: number | string | null;
}

/** Return every kept version of an item, oldest first, even if the item was deleted. */
export interface SetHistory {
  set?: NamedSet;
  call: "set.history";
  id: string;
}

/** The default lifetime of items of a set. */
export interface SetLife {
  after_s: number;
  refresh?: "write" | "read";
}

/** Return an item and all its ancestors as a graph. */
export interface SetLineage {
  set?: NamedSet;
  call: "set.lineage";
  id: string;
}

/** Return all items, or all items that match *where*, in order of time. */
export interface SetList {
  set?: NamedSet;
  call: "set.list";
  where?: Record<string, any> | null;
  limit?: number | null;
  /** Id of the last item of the previous page. The item may have been deleted since. */
  after?: string | null;
  newest_first?: boolean;
  as_of?: number | string | null;
  /** Return only facts that are valid at this time; by default all facts. */
  valid_at?: string | "any" | null;
}

/** Return all items, or all items that match *where*, as points in a plane. */
export interface SetPoints {
  set?: NamedSet;
  call: "set.points";
  where?: Record<string, any> | null;
  /** Most points. If there are more items, the points are an even sample of them. By default all items have a point. */
  limit?: number | null;
}

/** Retire the last *n* items by time, or fewer, and return them, oldest first. */
export interface SetPop {
  set?: NamedSet;
  call: "set.pop";
  n?: number;
}

/** Return the last *n* items by time, oldest first; 0 returns none. */
export interface SetRecent {
  set?: NamedSet;
  call: "set.recent";
  n?: number;
  as_of?: number | string | null;
  /** The time at which the facts must be valid: by default now, or *as_of* if it is given. "any" includes all facts. */
  valid_at?: string | "any" | null;
}

/** Let expiring items live for *ttl* from now on; return the number of renewed items. */
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
  /** Search the state of the set at a moment of the past. */
  as_of?: number | string | null;
  signals?: Signals | null;
  /** The time at which facts must be valid: by default now, or *as_of* if it is given. "any" includes all facts. */
  valid_at?: string | "any" | null;
  /** Leave out hits whose relevance is lower. A relevance is a number from 0 to 1 and can be compared across searches; each `Hit` has its relevance if *min_score* is given, even if it is 0. Measured on LoCoMo with minilm: 94 of 100 items that answer a question have a relevance of 0.5 or more; of the ten best items for a question without an answer, 12 of 100 have it. */
  min_score?: number | null;
  /** Reorders the best hits: as many as its `candidates` says, by default 50, and never fewer than *limit*. A `Hit` then has the reranker's score. If the reranker fails, the hits keep their order, and `Hits` has the reason. The default is the reranker of `Memory.open`, if there is one. None means a search without a reranker. */
  reranker?: "as the memory was opened" | null;
  /** What becomes of hits that a later item replaces, such as "I live in Lisbon" after "I moved to Porto". "fold" moves them into `Hit.supersedes` of the later hit, "show" returns them behind it, and "hide" leaves them out. Folded hits do not count as read. With *valid_at* "any", no item is replaced. */
  superseded?: "fold" | "show" | "hide";
}

export interface SetSize {
  set?: NamedSet;
  call: "set.size";
}

/** Return the items from which an item was derived, as they were then, oldest first. */
export interface SetSources {
  set?: NamedSet;
  call: "set.sources";
  id: string;
}

/** Replace a fact by a new fact from *at* on; return the id of the new item. */
export interface SetSupersede {
  set?: NamedSet;
  call: "set.supersede";
  id: string;
  /** One item of a memory set. */
  value: {
    /** The remembered data; any storable value. */
    value?: any;
    /** The name of the item in its set; alveus makes one if none is given. */
    id?: string;
    /** The text that search reads, by meaning and by words. The default is a str value itself, or the ``text`` or ``content`` of a dict; other values need a text. */
    text?: string;
    /** Facts to filter by. Search also reads ``caption`` (a str or a list of them). */
    metadata?: Record<string, any>;
    /** A number from 0 to 1. */
    importance?: number;
    /** The name of the person or program that said the text. */
    speaker?: string | null;
    /** A role such as ``user`` or ``assistant``. The default comes from the speaker: ``user`` and ``human`` have the role ``user``; ``assistant``, ``ai`` and ``bot`` have the role ``assistant``. */
    role?: string | null;
    /** The conversation to which the item belongs. Search also looks at the items before and after the item in that conversation. */
    session?: string | null;
    /** When the remembered event happened; the default is the time of the commit. Returned times have the offset from UTC with which the item was added. Search for a day compares that day with the item's date at this offset. */
    time?: string;
    /** Ids of the items from which the item was derived. */
    sources?: Array<string>;
    /** Whether the item replaces its sources. */
    compacted?: boolean;
    /** The end of a span of time that begins at `time`; only for items that cover a span. */
    until?: string | null;
    /** From this time on, reads of the present exclude the item. An earlier update can move this time. */
    expire_at?: string | null;
    /** When the fact in the item began to hold, or None if it always held. */
    valid_from?: string | null;
    /** When the fact in the item ceased to hold, or None if it still holds. */
    valid_to?: string | null;
    /** Given by a user instead of *expire_at*: how long the item is kept after the call, a timedelta or text like ``"7d"`` (``s m h d w``). Items from alveus have none. */
    ttl_s?: number | string | null;
    /** Given by a user instead of *text*: up to 32 texts. Search by meaning compares each text and counts the best one; search by words reads all. Items from alveus have no *texts*: their *text* contains all texts, separated by U+001E and a line end. */
    texts?: Array<string> | null;
    /** Given by a user: the zone whose offset the item keeps, as a name, an offset or a tzinfo. The default is the zone of *time*, or else the zone of the memory. Items from alveus have none. */
    timezone?: any;
  };
  at?: string | null;
  /** The id of the new item; by default a new id is made. */
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

/** Restore the items that a compaction retired, and remove the items that replaced them. */
export interface SetUndo {
  set?: NamedSet;
  call: "set.undo";
  /** The id of the compaction, as `Compacted` and `CompactionInfo` have it. */
  compaction: number;
}

/** Change the given fields of an item, as a new version; return this version. */
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

/** The sets of a key, or of knowledge. */
export interface SetsAnswer {
  sets: Array<SetAndSize>;
}

/** The division of a budget among the parts of a prompt. */
export interface Shares {
  /** The share of exact values, if the request names any. */
  exact?: number;
  /** The share of items of knowledge. */
  knowledge?: number;
  /** The share of the last exchanges. */
  recent?: number;
  /** The share of items of the key's sets. */
  items?: number;
  /** The share of the profile, if the request names one. */
  profile?: number;
  /** The share of blocks, if the request names any. */
  blocks?: number;
}

/** The weight of each signal in a score; 0 switches a signal off. */
export interface Signals {
  /** Weight of BM25. BM25 is first divided by the best BM25 of the search, so it is 0..1. */
  words?: number;
  /** Weight of the cosine between question and text. Results with 1.5 and with 3 differ by about a point (LoCoMo). */
  meaning?: number;
  /** Share of words and meaning that an item takes from the item before it in its session. Together with `next` it is worth 3 points. */
  previous?: number;
  /** Share of words and meaning that an item takes from the item after it in its session. */
  next?: number;
  /** Further share that an answer takes from the item before it. An answer is an item that follows a question of up to 60 words in its session. If the query names a speaker, only items of that speaker count as answers. */
  reply?: number;
  /** Weight of an item by the one speaker whom the question names. A higher weight helps where questions name the right speaker. It costs 8 points where they name the wrong one. */
  speaker?: number;
  /** Weight of an item by the user, if the question names no speaker and says "I". */
  user?: number;
  /** Weight of a time close to the date that the question names. */
  date?: number;
  /** Weight of temporal words in the text, if the question asks for a time. Two such words have the full weight, one word has half of it. */
  when?: number;
  /** Share of the best score in its session that an item takes, because items beside a good answer belong to it. An item without a session counts as a session by itself. */
  session?: number;
  /** Weight of a standing instruction: up to 40 words that begin with "always", "never", "from now on", "whenever I ask" or "make sure you always". */
  instruction?: number;
  /** Penalty of an item that ends in a question mark and has up to 25 words. */
  short_question?: number;
  /** Weight of a recent time: in full for an item of now, half of it after `half_life_days`, a quarter after twice that time. */
  recency?: number;
  /** Weight of the importance stored with the item. */
  importance?: number;
  /** Share, 0..1, that the mean of a long text's windows has in its cosine. The best window has the rest. */
  mean?: number;
  /** Weight of the people, places and things that the question names, if the field "entities" or "subject" of an item's metadata has them. Facts have these fields. An item that has one of two names gets half of the weight. */
  entities?: number;
  /** Least likeness (Ratcliff and Obershelp, 0..1) of a capitalised word to a speaker's first name at which the word counts as a misspelling of the name. Only words that no item contains are compared. 0 means that no words are compared. */
  names?: number;
  /** Share of a score, 0..1, that age takes away in the end. A score is multiplied by ``1 - decay * (1 - 2 ** (-age / half_life))``. *age* is the time since the item was last read, or since the item's time if that is later. *half_life* is ``half_life_days * (1 + importance)``, so an item of importance 1 fades half as fast. */
  decay?: number;
  /** Days after which recency has halved, and half of the decay is done. */
  half_life_days?: number;
  /** Parameter of BM25: how fast repetitions of a word stop counting. */
  k1?: number;
  /** Parameter of BM25: the penalty of a long text. `k1` of 0.9 and `b` of 0.4 beat 1.2 and 0.75 by a point. */
  b?: number;
}

/** The size of a memory and its waiting work. */
export interface StatsAnswer {
  space: string;
  knowledge: string;
  embedder: string;
  pending: number | null;
  queue_age_s: number | null;
  failure: string | null;
  store: StoreFigures | null;
}

/** Numbers about the store, with all its spaces. */
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

/** Read an object and everything below it as nodes, objects before their fields. */
export interface Subtree {
  /** The names from the root down. */
  path: Array<string>;
  as_of?: string | null;
  call: "exact.to_dict";
}

/** An item that a batch changes, and the version that it changes: 0 for an added item. */
export interface TouchedItem {
  key: string | null;
  set: string;
  id: string;
  version: number;
}

/** The result of an undo. */
export interface UndoneAnswer {
  /** Ids of the restored items. */
  restored: Array<string>;
  /** Ids of retired items that were erased after the compaction, as far as known. */
  missing: Array<string>;
  /** Ids of the removed items. They had replaced the restored items. */
  removed: Array<string>;
  /** Number of items that were erased after the compaction, even if their ids are unknown. */
  erased: number;
}

/** A value of exact memory. */
export interface ValueBody {
  value: any;
  /** Seconds after which it goes. */
  ttl_s?: number | null;
}

/** A server of alveus. */
export class Alveus extends Connection {
  /** Add items in one commit. */
  addItems(query: {
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, body: NewItems, options?: WriteOptions): Promise<AddedIds>;
  /** Change the given fields of an item in a new version. Omitted fields keep their values. */
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
  /** Return the changes in a key's exact memory between two commits, or until now. */
  changesOfTree(query: {
    since: number;
    until?: number | null;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List the commits that changed the exact memory of a key, oldest first. */
  commitsOfTree(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Retire an item. Its history stays. `POST /v1/forget` erases an item with its history. */
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
  /** Discard a run. The effects of its finished actions stay. Its other actions never run. */
  discardRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<RunChosen>;
  /** Export a space, or one key, as JSON lines: a consistent snapshot. */
  exportSpace(query?: {
    knowledge?: boolean;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, options?: CallOptions): AsyncGenerator<any, void>;
  /** Follow the number of the store's last commit, as server-sent events. */
  followCommits(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent<any>, never>;
  /**
   * Follow the commits of a key, of keys with a prefix, or of a whole space.
   *
   * Each event is a commit with its changes. Without a position, the stream starts now. Forgotten
   * data is omitted.
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
   * Erase items, or a whole key, for good. The receipt names the copies that remain.
   *
   * A repetition with the same idempotency key erases nothing more and returns the receipt's present
   * state.
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
   * Learn facts from texts, or from the new messages of a conversation.
   *
   * If a request was interrupted, a repetition continues it.
   */
  learn(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: LearnBody, options?: WriteOptions): Promise<LearnReportAnswer>;
  /**
   * List the quarantined items of all keys and of knowledge, some keys at a time.
   *
   * For the next page, send `next` of the last response as `after`.
   */
  listAllQuarantine(query?: {
    /** The space. */
    space?: string;
    after?: string | null;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /**
   * Return the changes of a space's last commits. For the next page, send `next` as `before`.
   *
   * Commits of other spaces are omitted. If there are many, a page may have fewer than `limit`.
   */
  listCommits(query?: {
    /** The space. */
    space?: string;
    before?: number | null;
    limit?: number;
  }, options?: CallOptions): Promise<CommitPage>;
  /** List the compactions of a set, latest first. */
  listCompactions(query: {
    /** The set. */
    set?: string;
    limit?: number;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<CompactionList>;
  /** List the entities with facts in a key, with their number of facts. */
  listEntities(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** List the facts learnt from a key's conversations. */
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
  /** List the items of a set by time. For the next page, send the last item's id as `after`. */
  listItems(query?: {
    after?: string | null;
    newest_first?: boolean;
    limit?: number;
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
  }, options?: CallOptions): Promise<ItemPage>;
  /** List the keys of a space, sorted. For the next page, send the last key as `after`. */
  listKeys(query?: {
    /** The space. */
    space?: string;
    prefix?: string;
    after?: string | null;
    limit?: number;
  }, options?: CallOptions): Promise<KeyPage>;
  /** List the quarantined items of a key, or of knowledge. */
  listQuarantine(query?: {
    limit?: number;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, options?: CallOptions): Promise<HeldList>;
  /** List the steps of the key's last runs that read an item, with the queries that found it. */
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
  /** List the receipts of forgotten data, latest first. */
  listReceipts(query?: {
    /** The space. */
    space?: string;
    limit?: number;
  }, options?: CallOptions): Promise<ReceiptList>;
  /** Return an item's sources and derived items as a graph: nodes, and edges as index pairs. */
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
  /** List runs of agents, latest first. For the next page, send the last run's id as `before`. */
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
  }, options?: CallOptions): Promise<SetsAnswer>;
  /** List the spaces of the store that the caller may see. */
  listSpaces(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Read every version of an item, oldest first, even after its deletion. */
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
   * Make several calls in one commit: all of them, or none if one is refused.
   *
   * A program that needs results between calls sends `dry_run` after each call, with all calls so
   * far, one `Idempotency-Key`, and the `base` of the first response. At the end it sends the
   * writing calls without `dry_run`, with `touched` of the last response.
   */
  makeBatch(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: BatchBody, options?: WriteOptions): Promise<BatchAnswer>;
  /** Make one call on the memory of a key, or on knowledge. `call` is the call's Python name. */
  makeCall(query: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, body: ExactIsExist | ExactGetFieldNames | ExactNames | ExactDelete | ExactMove | ExactClear | ExactAppend | ExactIncrement | ExactSet | ExactNewObject | ReadValue | ReadFields | Subtree | ReplaceValue | CopyObject | SetAddMany | SetGet | SetList | SetRecent | SetHistory | SetSearch | SetPoints | SetUpdate | SetSupersede | SetDelete | SetPop | SetRenew | SetForget | SetCompactions | SetUndo | SetSources | SetLineage | SetAdmit | SetSize | SetDefinition | RedefineSet | KeyContext | KeySearch | KeyPoints | KeySets | KeyForget | KeyDiff | QuarantineList | QuarantineGet | QuarantineRelease | QuarantineDiscard | QuarantineSize | ConversationAdd | ConversationGetMemory | ConversationMessages | ConversationSize | ConversationClear | ConversationUpdateMessagesMark | ConversationUpdateCompressedSummary | ConversationCompress | ConversationUncompress | ConversationStateDict | ConversationLoadStateDict | ConversationSummary | FactsList | FactsGet | FactsHistory | FactsLearnings | FactsCost | FactsAbout | FactsEntities | FactsNeighbours | FactsTimeline | FactsProfile | FactsMerge | FactsSplit | FactsWhy | FactsCheck | FactsUndo | FactsSize, options?: WriteOptions): Promise<CallAnswer>;
  /** Make a prompt from the memory of a key. The response has the reason for each piece. */
  makeContext(query: {
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: ContextBody, options?: CallOptions): Promise<ContextAnswer>;
  /**
   * Return a map of items, similar ones close together, as columns of one length.
   *
   * `set` and `speaker` are indexes in `sets` and `speakers`; -1 means no speaker. `times` are in
   * seconds.
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
  /** Return the items that a compaction retired and added, up to `MOST_SHOWN` of each. */
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
  /** Read the facts of an entity: a person, a location or a thing. */
  readEntity(query: {
    name: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<EntityPageAnswer>;
  /**
   * Return the growth of the store, at moments from its first to its last commit.
   *
   * `commits` counts all commits up to a moment. `items` counts the items that exist now and were
   * created up to that moment. Both cover all spaces, so a token limited to one space is refused.
   */
  readGrowth(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /** Report that the process is alive. */
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
   * Read items by their ids. The result has the order of the ids, with null for a missing item.
   *
   * The read does not count as a use of the items, because only a person sees them.
   */
  readItems(query: {
    /** The set. */
    set?: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, body: ItemIds, options?: CallOptions): Promise<Record<string, any>>;
  /** Return an item's sources to any depth as a graph: nodes, and edges as pairs of indexes. */
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
  /** Read counters of requests, in Prometheus format. */
  readMetrics(query?: {}, options?: CallOptions): Promise<string>;
  /** Read the profile of an entity, with at most `budget` tokens. */
  readProfile(query: {
    name?: string | null;
    budget?: number;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<EntityProfileAnswer>;
  /** Report whether the store responds. The caller needs a token, if the server has tokens. */
  readReadiness(query?: {}, options?: CallOptions): Promise<Record<string, string>>;
  /** Return the trace of a run: each step with its reads, writes, calls and outputs. */
  readRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<Record<string, any>>;
  /**
   * Read the size of the store and its waiting work.
   *
   * Numbers about all spaces are null for a token that is limited to one space.
   */
  readStats(query?: {
    /** The space. */
    space?: string;
  }, options?: CallOptions): Promise<StatsAnswer>;
  /** Read a value, or an object with everything below it. */
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
  /** Move an item from quarantine to its set. */
  releaseHeld(query: {
    /** The id of an item. */
    id: string;
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, options?: WriteOptions): Promise<HeldId>;
  /** Delete a value, or an object with everything below it. If-Match works as with `PUT`. */
  removeValue(query: {
    /** Names with dots between, or a JSON list of names; empty: the root. */
    path: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: GuardedWriteOptions): Promise<Removed>;
  /** Retry a parked run. A process that serves the run's agent runs it again. */
  retryRun(query: {
    /** The id of a run. */
    run: number;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<RunChosen>;
  /** Find the items that match a query best, in the sets of a key or in knowledge. */
  search(query: {
    /** The space. */
    space?: string;
    /** The user, session or device; without one: knowledge. */
    key?: string;
  }, body: SearchBody, options?: CallOptions): Promise<SearchAnswer>;
  /** Restore the items that a compaction retired, and delete the items it added. */
  undoCompaction(query: {
    id: number;
    /** The set. */
    set?: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, options?: WriteOptions): Promise<UndoneAnswer>;
  /** Set a value. With If-Match, set it only if the current value has that ETag. */
  writeValue(query: {
    /** Names with dots between, or a JSON list of names; empty: the root. */
    path: string;
    /** The user, session or device. */
    key: string;
    /** The space. */
    space?: string;
  }, body: ValueBody, options?: GuardedWriteOptions): Promise<ExactValue>;
}
