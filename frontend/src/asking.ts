/** What asks again and again for what a websocket would tell, while none gets through. */

import { ASK_MS, type SocketState } from "./socket.ts";

export class Asking {
  readonly #ask: () => Promise<boolean>;
  #on = false;

  /** `ask`: asks once, and answers whether there is more to be asked for at once. */
  constructor(ask: () => Promise<boolean>) {
    this.#ask = ask;
  }

  get on(): boolean {
    return this.#on;
  }

  /** What is heard of the websocket. */
  take(state: SocketState): void {
    const before = this.#on;
    this.#on = state === "blocked";
    if (this.#on && !before) void this.#run();
  }

  stop(): void {
    this.#on = false;
  }

  async #run(): Promise<void> {
    while (this.#on) {
      const more = await this.#ask().catch(() => false);
      if (!more) await new Promise((resume) => setTimeout(resume, ASK_MS));
    }
  }
}
