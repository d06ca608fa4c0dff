/** The bar that says where in a long log one is, and takes one anywhere in it. */

import { clockWords } from "./row.ts";
import { part } from "./parts.ts";

/** Steps of the bar: fine enough for a log of a gigabyte to be gone through by the arrow keys. */
const STEPS = 1000;

export class Place {
  readonly #bar: HTMLElement;
  readonly #range: HTMLInputElement;
  readonly #words: HTMLElement;
  #held = false;

  /** `go` is called with a share of the log from 0 to 1, where 1 is its live end. */
  constructor(root: HTMLElement, go: (share: number) => void) {
    this.#bar = part(root, "place");
    this.#range = part<HTMLInputElement>(root, "range");
    this.#words = part(root, "where");
    this.#range.max = String(STEPS);
    this.#range.addEventListener("input", () => {
      this.#held = true;
      this.#tell(this.#share, undefined);
    });
    this.#range.addEventListener("change", () => {
      this.#held = false;
      go(this.#share);
    });
    part(root, "first").addEventListener("click", () => go(0));
  }

  get #share(): number {
    return Number(this.#range.value) / STEPS;
  }

  /** `time`: of the first line in sight. While the reader drags, the bar is theirs. */
  show(shown: boolean, share: number, time: number | undefined): void {
    this.#bar.hidden = !shown;
    if (this.#held) return;
    this.#range.value = String(Math.round(share * STEPS));
    this.#tell(share, time);
  }

  #tell(share: number, time: number | undefined): void {
    const percent = `${Math.round(share * 100)} %`;
    const words = time === undefined ? percent : `${percent} · ${clockWords(time)}`;
    this.#words.textContent = words;
    this.#range.setAttribute("aria-valuetext", words);
  }
}
