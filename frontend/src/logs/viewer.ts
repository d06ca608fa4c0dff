/**
 * The log of one task attempt. It holds a stretch of the log: usually the newest part, which its live feed makes grow,
 * else one that the reader has gone to ("apart"), which grows where they scroll and meets the live end again.
 */

import { Beyond } from "./beyond.ts";
import { LogBuffer, MAX_LINES } from "./buffer.ts";
import { readEarlier, readLater } from "./earlier.ts";
import { Feed } from "./feed.ts";
import { part, whenGone } from "./parts.ts";
import { Place } from "./place.ts";
import { Toolbar } from "./toolbar.ts";
import { LogView } from "./view.ts";
import { WholeLog } from "./whole.ts";

/** How far before its end a longer log opens where no websocket says where. */
const TAIL = 64 * 1024;
/** Logs up to this size are read from their beginning; of longer ones the newest part comes first. */
const WHOLE_UP_TO = 16 * 1024 * 1024;

export class LogViewer {
  readonly #root: HTMLElement;
  readonly #records: string;
  readonly #view: LogView;
  readonly #toolbar: Toolbar;
  readonly #place: Place;
  #buffer: LogBuffer;
  /** None while the reader is apart from the live end. */
  #feed: Feed | undefined;
  /** Which feed is heard: what an earlier one still says counts no more. */
  #turn = 0;
  #size: number;
  #loading = false;
  #gone = false;

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#records = root.dataset["logRecords"] as string;
    this.#size = Number(root.dataset["logSize"] ?? 0);
    const whole = this.#size <= WHOLE_UP_TO;
    this.#buffer = new LogBuffer(whole ? 0 : this.#size);
    this.#view = new LogView(part(root, "box"), this.#buffer, {
      scrolled: (atBottom, atTop) => this.#scrolled(atBottom, atTop),
    });
    const beyond = new Beyond(root, new WholeLog(root.dataset["logFind"] as string), {
      held: () => [this.#buffer.start ?? 0, this.#buffer.end],
      show: (offset) => this.#show(offset),
    });
    this.#toolbar = new Toolbar(root, this.#view, {
      lines: () => this.#buffer,
      live: () => this.#live,
      newest: () => this.#newest(),
      beyond: () => (this.#partial ? beyond : undefined),
    });
    this.#place = new Place(root, (share) => void this.#goTo(share));
    part(root, "earlier").addEventListener("click", () => void this.#loadEarlier());
    this.#toolbar.setFollow(!location.hash.startsWith("#L"));
    this.#attach(whole ? 0 : "tail");
    const hash = (): void => this.#revealHash(true);
    addEventListener("hashchange", hash);
    whenGone(root, () => {
      this.#gone = true;
      this.#feed?.close();
      removeEventListener("hashchange", hash);
    });
  }

  get #live(): boolean {
    return this.#root.dataset["logState"] !== "ended";
  }

  /** Whether there is more of the log than is held here. */
  get #partial(): boolean {
    return this.#buffer.start !== 0 || this.#feed === undefined;
  }

  /** Follows the log live from this offset on, where what is held ends. */
  #attach(from: number | "tail"): void {
    if (this.#gone) return;
    let first = from === "tail";
    const turn = (this.#turn += 1);
    this.#feed = new Feed(this.#root.dataset["logSocket"] as string, from, {
      records: (records, start, to) => {
        if (this.#turn !== turn) return;
        if (first) this.#buffer.start = start;
        first = false;
        this.#size = Math.max(this.#size, to);
        this.#buffer.append(records, to);
        this.#changed();
      },
      tail: (records) => {
        if (this.#turn !== turn) return;
        this.#buffer.tail(records);
        this.#changed();
      },
      state: (state, retryMs) => {
        if (this.#turn === turn) this.#toolbar.setState(state, retryMs);
      },
      lost: (node) => {
        if (this.#turn === turn) this.#toolbar.setLost(node);
      },
    }, (next) => readLater(this.#records, next ?? Math.max(0, this.#size - TAIL)));
  }

  #detach(): void {
    this.#feed?.close();
    this.#feed = undefined;
    this.#turn += 1;
    this.#toolbar.setFollow(false);
    this.#toolbar.setState("apart", 0);
  }

  #changed(): void {
    const dropped = this.#buffer.trim();
    if (dropped) this.#view.shifted(-dropped);
    const { before, start, lines, dropped: gone } = this.#buffer;
    part(this.#root, "cut").hidden = before === 0;
    part(this.#root, "earlier").hidden = start === undefined;
    this.#toolbar.setCount(before === 0 || gone ? lines.length + gone : lines.length);
    this.#view.draw();
    this.#revealHash();
    this.#toolbar.searchSoon();
    this.#tellPlace();
  }

  #scrolled(atBottom: boolean, atTop: boolean): void {
    const live = this.#feed !== undefined;
    this.#toolbar.setFollow(atBottom && this.#live && live, atBottom && live);
    this.#tellPlace();
    if (atTop) void this.#loadEarlier();
    if (atBottom && !live) void this.#loadLater();
  }

  #tellPlace(): void {
    const { buffer, view } = { buffer: this.#buffer, view: this.#view };
    const atEnd = view.follow || (this.#feed !== undefined && view.roomy);
    const share = atEnd ? 1 : buffer.offsetOf(view.top) / Math.max(1, this.#size);
    this.#place.show(this.#partial && this.#size > 0, share, buffer.lines[view.top]?.time);
  }

  /** One reading at a time; what was asked for meanwhile is asked for again by the next scrolling. */
  async #alone(read: (buffer: LogBuffer) => Promise<void>): Promise<void> {
    if (this.#loading) return;
    this.#loading = true;
    try {
      await read(this.#buffer);
    } catch {
      part(this.#root, "earlier").textContent = this.#root.dataset["wordUnread"] ?? "";
    } finally {
      this.#loading = false;
    }
  }

  async #loadEarlier(): Promise<void> {
    await this.#alone(async (buffer) => {
      const { start } = buffer;
      if (!start || buffer.lines.length === 0) return;
      if (buffer.lines.length >= MAX_LINES) return void (await this.#open(start, start));
      const earlier = await readEarlier(this.#records, start);
      if (this.#buffer !== buffer || buffer.start !== start) return; // lines were dropped meanwhile
      this.#view.shifted(buffer.prepend(earlier.records, earlier.from));
      this.#changed();
    });
  }

  async #loadLater(): Promise<void> {
    await this.#alone(async (buffer) => {
      const later = await readLater(this.#records, buffer.end);
      if (this.#buffer !== buffer || this.#feed) return;
      if (later.records.length > 0 && later.to > buffer.end) buffer.append(later.records, later.to);
      else this.#attach(buffer.end);
      this.#changed();
    });
  }

  /** To a share (0 to 1) of the whole log. */
  async #goTo(share: number): Promise<void> {
    if (share >= 1) this.#newest();
    else await this.#alone(async () => void (await this.#open(Math.floor(share * this.#size))));
  }

  /** The log around this offset, with the position of the line that begins there. */
  async #show(offset: number): Promise<number> {
    while (this.#loading) await new Promise(requestAnimationFrame);
    let line = 0;
    await this.#alone(async () => {
      line = await this.#open(offset, 1);
    });
    return line;
  }

  /** Shows the log from this offset on; `before`: with what stands before it as well. Returns the line shown first. */
  async #open(offset: number, before = 0): Promise<number> {
    this.#detach();
    const later = await readLater(this.#records, offset);
    const buffer = new LogBuffer(later.from);
    buffer.append(later.records, later.to);
    let line = 0;
    if (before) {
      const earlier = await readEarlier(this.#records, later.from);
      line = buffer.prepend(earlier.records, earlier.from);
    }
    this.#buffer = buffer;
    this.#view.show(buffer, line);
    this.#changed();
    return line;
  }

  #newest(): void {
    if (!this.#feed) {
      this.#buffer = new LogBuffer(this.#size);
      this.#view.show(this.#buffer, 0);
      this.#attach("tail");
    }
    this.#view.toEnd();
    this.#toolbar.setFollow(true, true);
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
    this.#toolbar.setFollow(false);
    this.#view.current = place;
    this.#view.reveal(place);
  }
}
