/** Several logs over one websocket: hands every record of each on once, in order. */

import { Asking } from "../asking.ts";
import { Socket } from "../socket.ts";
import { PART, readEarlier, readLater, readStandings, type Standing } from "./earlier.ts";
import { FEED_STATES, judge, type FeedState, type Message } from "./feed.ts";
import type { LogRecord } from "./lines.ts";

export interface EarlierPart {
  log: string;
  from: number;
  /** Offset behind the last record; what stands between it and what is held is lost. Of a log of which all that stood
   * before is lost: 0, as `from`. */
  to: number;
  records: readonly LogRecord[];
}

export interface MergedHandlers {
  tasks: (tasks: readonly { log: string; name: string }[]) => void;
  /** Records of one log from its offset `from` on. */
  records: (log: string, records: readonly LogRecord[], from: number) => void;
  /** What there is of one log's lines without an end; it replaces what there was. */
  tail: (log: string, records: readonly LogRecord[]) => void;
  earlier: (parts: readonly EarlierPart[]) => void;
  /** What comes of this log from now on is new. */
  live: (log: string) => void;
  state: (state: FeedState, retryMs: number) => void;
  /** The servers that are gone with the rest of logs. */
  lost: (nodes: readonly string[]) => void;
}

type MergedMessage =
  | (Message & { log: string })
  | { type: "tasks"; tasks: { log: string; name: string }[] }
  | { type: "live"; log: string }
  | { type: "earlier"; logs: EarlierPart[] };

/** Bytes of all logs together with which they open, and with which one does at least, where no websocket says where. */
const TAILS = 2 << 20;
const LEAST = 16 * 1024;

export class MergedFeed {
  readonly #handlers: MergedHandlers;
  readonly #socket: Socket;
  readonly #next = new Map<string, number | undefined>();
  readonly #ended = new Set<string>();
  /** Of each log that is cut short, with which server. */
  readonly #lost = new Map<string, string>();

  readonly #asking: Asking;
  readonly #records: string;

  /** `address`: of the websocket. Where none gets through, `list` says how the logs stand, and `records` with a log's
   * name behind it is the address of its records. */
  constructor(address: string, list: string, records: string, handlers: MergedHandlers) {
    this.#handlers = handlers;
    this.#records = records;
    this.#asking = new Asking(() => this.#ask(list));
    this.#socket = new Socket({
      address: () => address,
      message: (data) => this.#take(data as MergedMessage),
      state: (state, retryMs) => {
        handlers.state(FEED_STATES[state], retryMs);
        this.#asking.take(state);
      },
    });
  }

  /** Asks for what stands before these offsets of the logs. */
  lookBack(before: Readonly<Record<string, number>>): void {
    if (this.#asking.on) void this.#readBack(before);
    else this.#socket.send({ type: "earlier", before });
  }

  close(): void {
    this.#asking.stop();
    this.#socket.close();
  }

  async #ask(list: string): Promise<boolean> {
    const logs = await readStandings(list);
    if (!this.#asking.on) return false;
    if (logs.some((log) => !this.#next.has(log.task_attempt))) {
      this.#take({ type: "tasks", tasks: logs.map((log) => ({ log: log.task_attempt, name: log.name })) });
    }
    const opening = Math.max(LEAST, Math.min(PART, TAILS / logs.length));
    await Promise.allSettled(logs.map((log) => this.#readOn(log, opening)));
    return false;
  }

  /** Reads a log on to where it ends. */
  async #readOn({ task_attempt: log, end, complete, lost_with, tail }: Standing, opening: number): Promise<void> {
    const opens = this.#next.get(log) === undefined;
    let at = this.#next.get(log) ?? Math.max(0, Math.ceil(end - opening));
    while (at < end) {
      const asked = this.#next.get(log);
      const later = await readLater(`${this.#records}${log}`, at);
      if (!this.#asking.on || this.#next.get(log) !== asked) return;
      if (later.records.length === 0) break;
      at = later.to;
      tail = later.tail;
      this.#takeOf({ type: "records", log, from: later.from, to: at, records: later.records });
    }
    if (opens) this.#handlers.live(log);
    this.#handlers.tail(log, tail);
    const told = this.#ended.has(log) && (this.#lost.get(log) ?? "") === lost_with;
    if (!complete) this.#reopened(log);
    else if (at >= end && !told) this.#takeOf({ type: "end", log, offset: at, state: "", lost: lost_with });
  }

  async #readBack(before: Readonly<Record<string, number>>): Promise<void> {
    const logs = Object.entries(before);
    const size = Math.ceil(Math.max(LEAST, PART / logs.length));
    const read = logs.map(async ([log, to]) => ({
      log, to, ...(await readEarlier(`${this.#records}${log}`, to, undefined, size)),
    }));
    const parts = await Promise.allSettled(read);
    this.#handlers.earlier(parts.flatMap((part) => (part.status === "fulfilled" && part.value.records.length > 0 ? [part.value] : [])));
  }

  #take(message: MergedMessage): void {
    if (message.type === "tasks") {
      for (const { log } of message.tasks) if (!this.#next.has(log)) this.#next.set(log, undefined);
      this.#handlers.tasks(message.tasks);
      this.#tellEnd();
    } else if (message.type === "earlier") {
      this.#handlers.earlier(message.logs);
    } else if (message.type === "live") {
      this.#handlers.live(message.log);
    } else {
      this.#takeOf(message);
    }
  }

  #takeOf(message: Message & { log: string }): void {
    const { log } = message;
    switch (judge(this.#next.get(log), message)) {
      case "take":
        if (message.type !== "records") return;
        this.#next.set(log, message.to);
        this.#reopened(log);
        this.#handlers.records(log, message.records, message.from);
        break;
      case "seek":
        this.#socket.send({ type: "seek", log, offset: this.#next.get(log) ?? 0 });
        break;
      case "open":
        this.#reopened(log);
        break;
      case "tail":
        this.#handlers.tail(log, (message as Message & { type: "tail" }).records);
        break;
      case "end":
        this.#ended.add(log);
        this.#setLost(log, (message as Message & { type: "end" }).lost ?? "");
        this.#tellEnd();
        break;
      case "drop":
        break;
    }
  }

  #reopened(log: string): void {
    if (!this.#lost.has(log)) return;
    this.#ended.delete(log);
    this.#setLost(log, "");
    this.#tellEnd();
  }

  #setLost(log: string, node: string): void {
    if ((this.#lost.get(log) ?? "") === node) return;
    if (node) this.#lost.set(log, node);
    else this.#lost.delete(log);
    this.#handlers.lost([...new Set(this.#lost.values())].sort());
  }

  #tellEnd(): void {
    const all = this.#next.size > 0 && [...this.#next.keys()].every((log) => this.#ended.has(log));
    const open = this.#asking.on ? "blocked" : "live";
    this.#handlers.state(all ? (this.#lost.size > 0 ? "cut" : "ended") : open, 0);
  }
}
