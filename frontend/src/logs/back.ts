/** The search in several logs beyond what is held of them: they are read back until it has something. */

import type { Onward } from "./toolbar.ts";
import type { Way } from "./whole.ts";

export interface BackHandlers {
  /** Bytes that stand before what is held of the logs; 0: nothing more can be read. */
  left: () => number;
  /** Reads the logs further back, and answers with the number of lines that are in front now. */
  further: () => Promise<number>;
  /** Positions of the lines that contain `text`. */
  search: (text: string) => readonly number[];
  /** The page's words of this name, with `value` in them. */
  word: (name: string, value?: string) => string;
}

export class Back implements Onward {
  words = "";
  readonly all = "";
  readonly #handlers: BackHandlers;
  #seeking: AbortController | undefined;

  constructor(handlers: BackHandlers) {
    this.#handlers = handlers;
  }

  get busy(): boolean {
    return this.#seeking !== undefined;
  }

  end(): void {
    this.#seeking?.abort();
    this.#seeking = undefined;
    this.words = "";
  }

  /** The nearest line before those that are held; forward there is nothing that is not held. */
  async go(way: Way, text: string, told: () => void): Promise<number | undefined> {
    this.end();
    if (way > 0 && this.#handlers.search(text).length > 0) return undefined;
    const { signal } = (this.#seeking = new AbortController());
    const all = this.#handlers.left();
    while (this.#handlers.left() > 0) {
      const share = Math.round((1 - this.#handlers.left() / all) * 100);
      this.words = this.#handlers.word("searching", String(share));
      told();
      const front = await this.#handlers.further();
      if (signal.aborted) return undefined;
      const place = this.#handlers.search(text).findLast((line) => line < front);
      if (place !== undefined) return this.#over("", place);
    }
    return this.#over(this.#handlers.word("nowhere"));
  }

  #over(words: string, place?: number): number | undefined {
    this.#seeking = undefined;
    this.words = words;
    return place;
  }
}
