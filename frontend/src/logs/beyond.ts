/** The search beyond the stretch of a log that the browser holds, and what it says of itself. */

import { language } from "../language.ts";
import { whenGone } from "./parts.ts";
import type { Onward } from "./toolbar.ts";
import type { Way, WholeLog } from "./whole.ts";

export interface BeyondHandlers {
  /** The offsets between which the log is held here. */
  held: () => [start: number, end: number];
  /** Shows the log around this offset. Answers with the position of the line there. */
  show: (offset: number) => Promise<number>;
}

export class Beyond implements Onward {
  /** What is said of the search beyond; empty: nothing. */
  words = "";
  /** How many lines of the log have the text, as far as that is known; empty: not asked. */
  all = "";
  /** What is going on: the search for the next line, and the count of all. */
  readonly #busy = new Set<AbortController>();
  readonly #whole: WholeLog;
  readonly #handlers: BeyondHandlers;
  readonly #root: HTMLElement;
  #seeking = new AbortController();
  #counting = new AbortController();
  #counted = "";

  constructor(root: HTMLElement, whole: WholeLog, handlers: BeyondHandlers) {
    this.#root = root;
    this.#whole = whole;
    this.#handlers = handlers;
    whenGone(root, () => this.end());
  }

  /** Whether the log is being searched. */
  get busy(): boolean {
    return this.#busy.size > 0;
  }

  /** Nothing is searched for any more. */
  end(): void {
    this.#seeking.abort();
    this.#counting.abort();
    this.#busy.clear();
    this.#counted = this.words = this.all = "";
  }

  /**
   * Looks for `text` beyond what is held and shows the log there. Answers with the position of the line; undefined
   * where the text is nowhere else, or another search has begun. `told`: there is something new to say.
   */
  async go(way: Way, text: string, told: () => void): Promise<number | undefined> {
    this.#seeking.abort();
    const control = (this.#seeking = this.#begun());
    const { signal } = control;
    const [start, end] = this.#handlers.held();
    const say = (words: string): void => {
      if (signal.aborted) return;
      this.words = words;
      told();
    };
    say(this.#word("searching", "0"));
    try {
      const offset = await this.#whole.seek(text, way > 0 ? end : start, way, signal, (share) =>
        say(this.#word("searching", String(Math.round(share * 100)))),
      );
      const line = offset === undefined || (offset >= start && offset < end) ? undefined : await this.#handlers.show(offset);
      if (signal.aborted) return undefined;
      this.words = line === undefined && offset === undefined ? this.#word("nowhere") : "";
      if (offset !== undefined) this.#count(text, told);
      return line;
    } catch {
      say(this.#word("unread"));
      return undefined;
    } finally {
      this.#busy.delete(control);
    }
  }

  /** How often the text is there in all is found out while one reads on, once for each text. */
  #count(text: string, told: () => void): void {
    if (this.#counted === text) return;
    this.#counting.abort();
    this.#counted = text;
    const control = (this.#counting = this.#begun());
    const number = new Intl.NumberFormat(language);
    void this.#whole
      .count(text, control.signal, (lines, share) => {
        const [count, percent] = [number.format(lines), String(Math.floor(share * 100))];
        this.all = share < 1 ? this.#word("so-far", count).replace("%p", percent) : this.#word(lines === 1 ? "all-one" : "all", count);
        if (share >= 1) this.#busy.delete(control);
        told();
      })
      .catch(() => this.#busy.delete(control)); // ended, or to be found out with the next text
  }

  #begun(): AbortController {
    const control = new AbortController();
    control.signal.addEventListener("abort", () => this.#busy.delete(control));
    this.#busy.add(control);
    return control;
  }

  #word(name: string, value = ""): string {
    return (this.#root.getAttribute(`data-word-${name}`) ?? "").replace("%s", value);
  }
}
