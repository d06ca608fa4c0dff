/** Several logs over one websocket: hands every record of each on once, in order. */

import { Socket } from "../socket.ts";
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

export class MergedFeed {
  readonly #handlers: MergedHandlers;
  readonly #socket: Socket;
  readonly #next = new Map<string, number | undefined>();
  readonly #ended = new Set<string>();
  /** Of each log that is cut short, with which server. */
  readonly #lost = new Map<string, string>();

  constructor(address: string, handlers: MergedHandlers) {
    this.#handlers = handlers;
    this.#socket = new Socket({
      address: () => address,
      message: (data) => this.#take(data as MergedMessage),
      state: (state, retryMs) => handlers.state(FEED_STATES[state], retryMs),
    });
  }

  /** Asks for what stands before these offsets of the logs. */
  lookBack(before: Readonly<Record<string, number>>): void {
    this.#socket.send({ type: "earlier", before });
  }

  close(): void {
    this.#socket.close();
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
    this.#handlers.state(all ? (this.#lost.size > 0 ? "cut" : "ended") : "live", 0);
  }
}
