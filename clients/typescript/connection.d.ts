/** What a client is made with. */
export interface ConnectionOptions {
  /** A token of `alveus token new`; none where the server has none. */
  token?: string;
  /** Asks the server; by default the `fetch` of the platform. */
  fetch?: typeof globalThis.fetch;
  /** How long one try may take, in milliseconds; 30 seconds by default. */
  timeoutMs?: number;
  /** How long a call is tried again, in milliseconds; 30 seconds by default. */
  retryForMs?: number;
  /** After how long without a word a stream of events is followed anew, in milliseconds; 60 seconds by default. The server says a word every 15. */
  silentMs?: number;
  /** Where the reader is, such as `Europe/Lisbon` or `+05:30`: by it days are counted. By default where this machine, or browser, is. */
  timezone?: string;
}

/** What any call takes. */
export interface CallOptions {
  signal?: AbortSignal;
}

/** What a write takes. */
export interface WriteOptions extends CallOptions {
  /** The name under which it is made once; by default one of this call, for all its tries. */
  idempotencyKey?: string;
}

/** What a write takes that may come too late. */
export interface GuardedWriteOptions extends WriteOptions {
  /** The ETag that was read (`etagOf`, or `"3"` in quotes for version 3 of an item). */
  ifMatch?: string;
}

/** An event of a stream; its id is the number of a commit. */
export interface ServerEvent<Data> {
  id: number;
  event: string;
  data: Data;
}

/** The ETag of an answer, for `ifMatch`; null: it came without one. */
export function etagOf(answer: object): string | null;

/** An answer of the server that says what is wrong. */
export class AlveusError extends Error {
  readonly status: number;
  /** The class of the error, such as `NotFound`. */
  readonly type: string;
  readonly facts: Record<string, unknown>;
}

/** There was no answer for as long as the client tries; the cause is the last failure. */
export class ServerUnreachable extends Error {
  /** Of a write: under which name it is repeated, so that it takes effect once. */
  readonly idempotencyKey?: string;
}

/** A server, and how it is asked. */
export class Connection {
  constructor(url: string, options?: ConnectionOptions);
}
