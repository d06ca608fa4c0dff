/** The search in several logs beyond what is held of them: they are read back until it has something. */

import type { Onward } from "./toolbar.ts";
import type { Way } from "./whole.ts";

/** After so many looks that brought nothing, with a pause behind each, nothing more is expected. */
const FRUITLESS = 5;
const PAUSE_MS = 1000;

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
  readonly #pause: () => Promise<void>;
  #seeking: AbortController | undefined;

  constructor(handlers: BackHandlers, pause = () => new Promise<void>((done) => setTimeout(done, PAUSE_MS))) {
    this.#handlers = handlers;
    this.#pause = pause;
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
    let fruitless = 0;
    while (this.#handlers.left() > 0) {
      const left = this.#handlers.left();
      const share = Math.round((1 - left / all) * 100);
      this.words = this.#handlers.word("searching", String(share));
      told();
      const front = await this.#handlers.further();
      if (signal.aborted) return undefined;
      const place = this.#handlers.search(text).findLast((line) => line < front);
      if (place !== undefined) return this.#over("", place);
      fruitless = this.#handlers.left() < left ? 0 : fruitless + 1;
      if (fruitless === FRUITLESS) return this.#over(this.#handlers.word("unread"));
      if (fruitless > 0) await this.#pause();
      if (signal.aborted) return undefined;
    }
    return this.#over(this.#handlers.word("nowhere"));
  }

  #over(words: string, place?: number): number | undefined {
    this.#seeking = undefined;
    this.words = words;
    return place;
  }
}
