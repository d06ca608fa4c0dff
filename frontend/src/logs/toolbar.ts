/** The buttons over a log: what this browser remembers (times, wrap), follow, and the search. */

import { language } from "../language.ts";
import type { FeedState } from "./feed.ts";
import { part, remember, remembered } from "./parts.ts";
import type { LogView } from "./view.ts";
import type { Way } from "./whole.ts";

/** Of which the view shows a stretch. */
export interface Searched {
  /** Positions of the lines that contain `text`, without regard to case. */
  search(text: string): number[];
}

/** Searches what is not held here. */
export interface Onward {
  /** What is said of it; empty: nothing. */
  readonly words: string;
  /** How many lines have the text in all; empty: not known. */
  readonly all: string;
  readonly busy: boolean;
  /** Nothing is searched for any more. */
  end(): void;
  /** Answers with the position of a line with `text`; undefined where there is none, or another search has begun.
   * `told`: there is something new to say. */
  go(way: Way, text: string, told: () => void): Promise<number | undefined>;
}

export interface ToolbarHandlers {
  /** Where to search now. */
  lines: () => Searched;
  /** Whether there is anything to follow. */
  live: () => boolean;
  /** The reader wants to be at the newest line. */
  newest: () => void;
  /** Searches what is not held here; undefined where all of the log is. */
  beyond: () => Onward | undefined;
}

export class Toolbar {
  readonly #root: HTMLElement;
  readonly #view: LogView;
  readonly #handlers: ToolbarHandlers;
  #found: number[] = [];
  #searchTimer = 0;
  /** The search beyond that was begun last. */
  #beyond: Onward | undefined;
  /** Which search beyond is waited for: what an earlier one or one that was stopped still says leads nowhere. */
  #turn = 0;

  constructor(root: HTMLElement, view: LogView, handlers: ToolbarHandlers) {
    this.#root = root;
    this.#view = view;
    this.#handlers = handlers;
    this.#toggle("times", (on) => (view.times = on));
    this.#toggle("wrap", (on) => (view.wrap = on));
    this.#bindFollow();
    this.#bindSearch();
    this.#bindKeys();
  }

  setFollow(follow: boolean, atBottom = false): void {
    this.#view.follow = follow;
    part(this.#root, "follow").setAttribute("aria-pressed", String(follow));
    part(this.#root, "newest").hidden = follow || atBottom;
  }

  setState(state: FeedState | "apart", retryMs: number): void {
    const { dataset } = this.#root;
    dataset["logState"] = state;
    const words = dataset[`word${state[0]?.toUpperCase()}${state.slice(1)}`] ?? state;
    part(this.#root, "state").textContent = words.replace("%s", String(Math.ceil(retryMs / 1000)));
    part(this.#root, "follow").hidden = state === "ended";
  }

  /** Says with which servers the rest of the log is gone; empty: with none. */
  setLost(nodes: string): void {
    const line = part(this.#root, "lost");
    line.hidden = !nodes;
    line.textContent = (this.#root.dataset["wordLost"] ?? "%s").replace("%s", nodes);
  }

  setCount(lines: number): void {
    this.#root.classList.toggle("is-empty", lines === 0);
    part(this.#root, "count").textContent = new Intl.NumberFormat(language).format(lines);
    const word = part(this.#root, "lines");
    word.textContent = word.dataset[lines === 1 ? "one" : "many"] ?? "";
  }

  /** Lines have come or gone: what was found may stand elsewhere. */
  searchSoon(): void {
    if (!this.#view.search && this.#found.length === 0) return;
    this.#searchTimer ||= window.setTimeout(() => {
      this.#searchTimer = 0;
      this.#find();
      this.#tellFound();
      this.#view.refresh();
    }, 150);
  }

  #bindFollow(): void {
    const follow = part(this.#root, "follow");
    follow.addEventListener("click", () => {
      if (follow.getAttribute("aria-pressed") === "true") this.setFollow(false);
      else this.#handlers.newest();
    });
    part(this.#root, "newest").addEventListener("click", () => this.#handlers.newest());
  }

  #toggle(name: "times" | "wrap", apply: (on: boolean) => void): void {
    const button = part(this.#root, name);
    const key = `berth.log.${name}`;
    const set = (on: boolean): void => {
      button.setAttribute("aria-pressed", String(on));
      apply(on);
    };
    set(remembered(key) === "true");
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      remember(key, String(on));
      set(on);
    });
  }

  #bindSearch(): void {
    const input = part<HTMLInputElement>(this.#root, "search");
    input.addEventListener("input", () => {
      this.#view.search = input.value.toLowerCase();
      this.#view.current = -1;
      this.#endBeyond();
      this.searchSoon();
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        this.#step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        input.value = "";
        input.dispatchEvent(new Event("input"));
      }
    });
    part(this.#root, "stop").addEventListener("click", () => {
      this.#endBeyond();
      this.#tellFound();
      input.focus();
    });
    part(this.#root, "before").addEventListener("click", () => this.#step(-1));
    part(this.#root, "after").addEventListener("click", () => this.#step(1));
  }

  /** `/` in the log goes to the search, as in a pager; `G` goes to the newest line. */
  #bindKeys(): void {
    part(this.#root, "box").addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        part(this.#root, "search").focus();
      } else if (event.key === "G") {
        this.#handlers.newest();
      }
    });
  }

  #find(): void {
    this.#found = this.#view.search ? this.#handlers.lines().search(this.#view.search) : [];
  }

  #step(way: Way): void {
    this.#find();
    const { current, search } = this.#view;
    const beyond = search ? this.#handlers.beyond() : undefined;
    const after = this.#found.find((place) => place > current);
    const before = this.#found.findLast((place) => place < current || current < 0);
    const next = (way > 0 ? after : before) ?? (beyond ? undefined : this.#found.at(way > 0 ? 0 : -1));
    if (next !== undefined) this.#reveal(next);
    else if (beyond) void this.#stepBeyond(beyond, way);
    this.#tellFound();
  }

  /** Where there is no more here, the search goes on in the whole of the log. */
  async #stepBeyond(beyond: Onward, way: Way): Promise<void> {
    const { search } = this.#view;
    const turn = (this.#turn += 1);
    this.#beyond = beyond;
    const line = await beyond.go(way, search, () => this.#tellFound());
    if (this.#turn !== turn) return;
    this.#find();
    const near = line === undefined ? this.#found.at(way > 0 ? 0 : -1) : this.#found.find((place) => place >= line);
    const next = near ?? line;
    if (next !== undefined) this.#reveal(next);
    this.#tellFound();
  }

  #endBeyond(): void {
    this.#turn += 1;
    this.#beyond?.end();
  }

  #reveal(place: number): void {
    this.setFollow(false);
    this.#view.current = place;
    this.#view.reveal(place);
  }

  #tellFound(): void {
    const place = this.#found.indexOf(this.#view.current) + 1;
    const here = this.#view.search ? `${place || "–"} / ${this.#found.length}` : "";
    const partial = here && this.#handlers.beyond() ? (this.#root.dataset["wordHere"] ?? "%s").replace("%s", here) : here;
    part(this.#root, "stop").hidden = !this.#view.search || !this.#beyond?.busy;
    const words = [partial, this.#beyond?.words, this.#beyond?.all];
    part(this.#root, "found").textContent = this.#view.search ? words.filter(Boolean).join(" · ") : "";
  }
}
