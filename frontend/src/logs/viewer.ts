/** The log of one task attempt: buffer, live feed, view and toolbar together. */

import { LogBuffer } from "./buffer.ts";
import { readEarlier } from "./earlier.ts";
import { Feed, type FeedState } from "./feed.ts";
import { LogView } from "./view.ts";

/** Logs up to this size are read from their beginning; of longer ones the newest part comes first. */
const WHOLE_UP_TO = 16 * 1024 * 1024;

function part<T extends HTMLElement>(root: HTMLElement, name: string): T {
  const found = root.querySelector<T>(`[data-log-${name}]`);
  if (!found) throw new Error(`the log viewer has no part ${name}`);
  return found;
}

export class LogViewer {
  readonly #root: HTMLElement;
  readonly #view: LogView;
  readonly #buffer: LogBuffer;
  #found: number[] = [];
  #searchTimer = 0;
  #loading = false;

  constructor(root: HTMLElement) {
    this.#root = root;
    const size = Number(root.dataset["logSize"] ?? 0);
    const whole = size <= WHOLE_UP_TO;
    this.#buffer = new LogBuffer(whole ? 0 : size);
    root.classList.add("is-empty");
    let first = true;
    this.#view = new LogView(part(root, "box"), this.#buffer, {
      scrolled: (atBottom, atTop) => {
        this.#setFollow(atBottom && this.#live, atBottom);
        if (atTop) void this.#loadEarlier();
      },
    });
    this.#bindToggles();
    this.#bindSearch();
    this.#setFollow(!location.hash.startsWith("#L"));
    part(root, "earlier").addEventListener("click", () => void this.#loadEarlier());
    new Feed(root.dataset["logSocket"] as string, whole ? 0 : "tail", {
      records: (records, from) => {
        if (first && this.#buffer.start) this.#buffer.start = from;
        first = false;
        this.#buffer.append(records);
        this.#changed();
      },
      state: (state, retryMs) => this.#setState(state, retryMs),
    });
  }

  get #live(): boolean {
    return this.#root.dataset["logState"] !== "ended";
  }

  #changed(): void {
    const dropped = this.#buffer.trim();
    if (dropped) this.#view.shifted(-dropped);
    this.#root.classList.toggle("is-empty", this.#buffer.lines.length === 0);
    part(this.#root, "cut").hidden = this.#buffer.before === 0;
    part(this.#root, "earlier").hidden = this.#buffer.start === undefined;
    part(this.#root, "count").textContent = new Intl.NumberFormat().format(
      this.#buffer.lines.length + this.#buffer.dropped,
    );
    this.#view.draw();
    this.#revealHash();
    if (this.#view.search) this.#searchSoon();
  }

  async #loadEarlier(): Promise<void> {
    const { start } = this.#buffer;
    if (this.#loading || !start || this.#buffer.lines.length === 0) return;
    this.#loading = true;
    try {
      const earlier = await readEarlier(this.#root.dataset["logRecords"] as string, start);
      if (this.#buffer.start !== start) return; // lines were dropped meanwhile
      this.#view.shifted(this.#buffer.prepend(earlier.records, earlier.from));
      this.#changed();
    } catch {
      part(this.#root, "earlier").textContent = this.#root.dataset["wordUnread"] ?? "";
    } finally {
      this.#loading = false;
    }
  }

  #setState(state: FeedState, retryMs: number): void {
    const { dataset } = this.#root;
    dataset["logState"] = state;
    const words = dataset[`word${state[0]?.toUpperCase()}${state.slice(1)}`] ?? state;
    part(this.#root, "state").textContent = words.replace("%s", String(Math.ceil(retryMs / 1000)));
    if (state === "ended") part(this.#root, "follow").hidden = true;
  }

  #setFollow(follow: boolean, atBottom = false): void {
    this.#view.follow = follow;
    part(this.#root, "follow").setAttribute("aria-pressed", String(follow));
    part(this.#root, "newest").hidden = follow || atBottom;
  }

  #bindToggles(): void {
    this.#toggle("times", false, (on) => (this.#view.times = on));
    this.#toggle("wrap", false, (on) => (this.#view.wrap = on));
    const follow = part(this.#root, "follow");
    follow.addEventListener("click", () => this.#setFollow(follow.getAttribute("aria-pressed") !== "true"));
    part(this.#root, "newest").addEventListener("click", () => {
      this.#view.toEnd();
      this.#setFollow(this.#live, true);
    });
    addEventListener("hashchange", () => this.#revealHash(true));
  }

  /** A switch that this browser remembers. */
  #toggle(name: "times" | "wrap", standard: boolean, apply: (on: boolean) => void): void {
    const button = part(this.#root, name);
    const key = `berth.log.${name}`;
    const set = (on: boolean): void => {
      button.setAttribute("aria-pressed", String(on));
      apply(on);
    };
    set((read(key) ?? String(standard)) === "true");
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      write(key, String(on));
      set(on);
    });
  }

  #bindSearch(): void {
    const input = part<HTMLInputElement>(this.#root, "search");
    input.addEventListener("input", () => {
      this.#view.search = input.value.toLowerCase();
      this.#view.current = -1;
      this.#searchSoon();
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
    part(this.#root, "before").addEventListener("click", () => this.#step(-1));
    part(this.#root, "after").addEventListener("click", () => this.#step(1));
  }

  #searchSoon(): void {
    this.#searchTimer ||= window.setTimeout(() => {
      this.#searchTimer = 0;
      this.#found = this.#view.search ? this.#buffer.search(this.#view.search) : [];
      this.#tellFound();
      this.#view.refresh();
    }, 150);
  }

  #step(way: 1 | -1): void {
    this.#found = this.#view.search ? this.#buffer.search(this.#view.search) : [];
    if (this.#found.length > 0) {
      const { current } = this.#view;
      const next =
        way > 0
          ? (this.#found.find((place) => place > current) ?? this.#found[0])
          : (this.#found.findLast((place) => place < current) ?? this.#found.at(-1));
      this.#setFollow(false);
      this.#view.current = next as number;
      this.#view.reveal(next as number);
    }
    this.#tellFound();
  }

  #tellFound(): void {
    const place = this.#found.indexOf(this.#view.current) + 1;
    const words = this.#view.search ? `${place || "–"} / ${this.#found.length}` : "";
    part(this.#root, "found").textContent = words;
  }

  /** Goes to the line that the address names, as soon as it is there. */
  #revealHash(again = false): void {
    const number = Number(/^#L(\d+)$/.exec(location.hash)?.[1] ?? 0);
    const { before } = this.#buffer;
    const place = number - 1 - (before ?? 0);
    if (!number || before === undefined || place < 0 || place >= this.#buffer.lines.length) return;
    if (!again && this.#view.current === place) return;
    if (!again && this.#root.dataset["logHash"] === location.hash) return;
    this.#root.dataset["logHash"] = location.hash;
    this.#setFollow(false);
    this.#view.current = place;
    this.#view.reveal(place);
  }
}

function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage may be forbidden
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // not remembered
  }
}
