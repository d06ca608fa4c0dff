/** The live end of a log: takes what `/ws/logs/<task attempt>` sends and hands every record on once, in order. */

import { Asking } from "../asking.ts";
import { Socket } from "../socket.ts";
import type { Later } from "./earlier.ts";
import type { LogRecord } from "./lines.ts";

export type FeedState = "connecting" | "live" | "reconnecting" | "crowded" | "blocked" | "refused" | "ended" | "cut";

export const FEED_STATES = {
  connecting: "connecting", open: "live", waiting: "reconnecting", crowded: "crowded", blocked: "blocked",
  refused: "refused",
} as const;

export interface FeedHandlers {
  /** Records from the log's offset `from` up to `to`; `to` is where the next ones begin. */
  records: (records: readonly LogRecord[], from: number, to: number) => void;
  state: (state: FeedState, retryMs: number) => void;
  /** What there is of lines without an end; it replaces what there was. */
  tail: (records: readonly LogRecord[]) => void;
  /** The server that is gone with the rest of the log; empty: more may come, or nothing is missing. */
  lost: (node: string) => void;
}

export type Message =
  | { type: "records"; from: number; to: number; records: LogRecord[] }
  | { type: "tail"; records: LogRecord[] }
  | { type: "skipped"; offset: number }
  | { type: "open"; offset: number }
  | { type: "end"; offset: number; state: string; lost?: string | null };

/** What to do with a message, given the offset that comes next (`undefined`: wherever the server begins). */
export function judge(next: number | undefined, message: Message): "take" | "drop" | "seek" | "end" | "open" | "tail" {
  switch (message.type) {
    case "records":
      if (next === undefined || message.from === next) return "take";
      // what was seen comes again after a reconnection; a hole means that the server skipped
      return message.from < next && message.to <= next ? "drop" : "seek";
    case "skipped": // the server reads on from there by itself
      return message.offset === next ? "drop" : "seek";
    case "open":
    case "tail":
      return message.type;
    case "end":
      return next === undefined || next >= message.offset ? "end" : "seek";
  }
}

export class Feed {
  readonly #handlers: FeedHandlers;
  readonly #socket: Socket;
  #next: number | undefined;
  #ended = false;
  #cut = false;
  readonly #later: (from: number | undefined) => Promise<Later>;
  readonly #asking = new Asking(() => this.#ask());

  /** `address`: of the websocket, without offset. `start`: an offset, or "tail" for the newest part. `later` gives what
   * stands from an offset on, or near the end, where no websocket gets through. */
  constructor(
    address: string,
    start: number | "tail",
    handlers: FeedHandlers,
    later: (from: number | undefined) => Promise<Later>,
  ) {
    this.#handlers = handlers;
    this.#later = later;
    this.#next = start === "tail" ? undefined : start;
    this.#socket = new Socket({
      address: () => `${address}?offset=${this.#next ?? "tail"}`,
      message: (data) => this.#take(data as Message),
      state: (state, retryMs) => {
        if (this.#ended) return;
        this.#cut = false; // if it still is, that is told again
        handlers.state(FEED_STATES[state], retryMs);
        this.#asking.take(state);
      },
    });
  }

  /** Asks for what is new; whether there was something. */
  async #ask(): Promise<boolean> {
    const asked = this.#next;
    const later = await this.#later(asked);
    if (!this.#asking.on || this.#next !== asked) return true;
    if (later.records.length > 0) {
      this.#next = later.to;
      this.#handlers.records(later.records, later.from, later.to);
    } else if (later.complete) {
      this.#end({ type: "end", offset: later.to, state: "", lost: later.lost });
    }
    this.#handlers.tail(later.tail);
    return later.records.length > 0;
  }

  close(): void {
    this.#asking.stop();
    this.#socket.close();
  }

  #take(message: Message): void {
    switch (judge(this.#next, message)) {
      case "take":
        if (message.type === "records") {
          this.#next = message.to;
          this.#reopened();
          this.#handlers.records(message.records, message.from, message.to);
        }
        break;
      case "seek":
        this.#socket.send({ type: "seek", offset: this.#next ?? 0 });
        break;
      case "open":
        this.#reopened();
        break;
      case "tail":
        this.#handlers.tail((message as Message & { type: "tail" }).records);
        break;
      case "end":
        this.#end(message as Message & { type: "end" });
        break;
      case "drop":
        break;
    }
  }

  /** A server that is lost may come back with the rest: then the log goes on. */
  #end({ lost }: Message & { type: "end" }): void {
    this.#cut = Boolean(lost);
    this.#ended = !this.#cut;
    this.#handlers.lost(lost ?? "");
    this.#handlers.state(this.#cut ? "cut" : "ended", 0);
    if (this.#ended) this.close();
  }

  #reopened(): void {
    if (!this.#cut) return;
    this.#cut = false;
    this.#handlers.lost("");
    this.#handlers.state("live", 0);
  }
}
