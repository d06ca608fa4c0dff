/** The live end of a log: takes what `/ws/logs/<task attempt>` sends and hands every record on once, in order. */

import { Socket } from "../socket.ts";
import type { LogRecord } from "./lines.ts";

export type FeedState = "connecting" | "live" | "reconnecting" | "crowded" | "refused" | "ended";

export const FEED_STATES = {
  connecting: "connecting", open: "live", waiting: "reconnecting", crowded: "crowded", refused: "refused",
} as const;

export interface FeedHandlers {
  /** Records from the log's offset `from` up to `to`; `to` is where the next ones begin. */
  records: (records: readonly LogRecord[], from: number, to: number) => void;
  state: (state: FeedState, retryMs: number) => void;
}

export type Message =
  | { type: "records"; from: number; to: number; records: LogRecord[] }
  | { type: "skipped"; offset: number }
  | { type: "end"; offset: number; state: string };

/** What to do with a message, given the offset that comes next (`undefined`: wherever the server begins). */
export function judge(next: number | undefined, message: Message): "take" | "drop" | "seek" | "end" {
  switch (message.type) {
    case "records":
      if (next === undefined || message.from === next) return "take";
      // what was seen comes again after a reconnection; a hole means that the server skipped
      return message.from < next && message.to <= next ? "drop" : "seek";
    case "skipped": // the server reads on from there by itself
      return message.offset === next ? "drop" : "seek";
    case "end":
      return next === undefined || next >= message.offset ? "end" : "seek";
  }
}

export class Feed {
  readonly #handlers: FeedHandlers;
  readonly #socket: Socket;
  #next: number | undefined;
  #ended = false;

  /** `address`: of the websocket, without offset. `start`: an offset, or "tail" for the newest part. */
  constructor(address: string, start: number | "tail", handlers: FeedHandlers) {
    this.#handlers = handlers;
    this.#next = start === "tail" ? undefined : start;
    this.#socket = new Socket({
      address: () => `${address}?offset=${this.#next ?? "tail"}`,
      message: (data) => this.#take(data as Message),
      state: (state, retryMs) => {
        if (this.#ended) return;
        handlers.state(FEED_STATES[state], retryMs);
      },
    });
  }

  close(): void {
    this.#socket.close();
  }

  #take(message: Message): void {
    switch (judge(this.#next, message)) {
      case "take":
        if (message.type === "records") {
          this.#next = message.to;
          this.#handlers.records(message.records, message.from, message.to);
        }
        break;
      case "seek":
        this.#socket.send({ type: "seek", offset: this.#next ?? 0 });
        break;
      case "end":
        this.#ended = true;
        this.#handlers.state("ended", 0);
        this.#socket.close();
        break;
      case "drop":
        break;
    }
  }
}
