/** The logs of several tasks of a job as one: ordered by time, the task's name on each line. */

import { Back } from "./back.ts";
import { MergedBuffer } from "./merged_buffer.ts";
import { MergedFeed } from "./merged_feed.ts";
import { part, whenGone } from "./parts.ts";
import { Toolbar } from "./toolbar.ts";
import { LogView } from "./view.ts";

export class MergedViewer {
  readonly #root: HTMLElement;
  readonly #buffer = new MergedBuffer();
  readonly #view: LogView;
  readonly #toolbar: Toolbar;
  readonly #feed: MergedFeed;
  #loading = false;
  /** Who waits for what stands before; each is told how many lines came in front. */
  #asked: ((lines: number) => void)[] = [];

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#view = new LogView(part(root, "box"), this.#buffer, {
      scrolled: (atBottom, atTop) => {
        this.#toolbar.setFollow(atBottom && this.#live, atBottom);
        if (atTop) this.#lookBack();
      },
    });
    const back = new Back({
      left: () => Object.values(this.#buffer.reach).reduce((sum, bytes) => sum + bytes, 0),
      further: () => this.#further(),
      search: (text) => this.#buffer.search(text),
      word: (name, value = "") => (root.getAttribute(`data-word-${name}`) ?? "").replace("%s", value),
    });
    this.#toolbar = new Toolbar(root, this.#view, {
      lines: () => this.#buffer,
      beyond: () => (this.#more || this.#buffer.dropped ? back : undefined),
      live: () => this.#live,
      newest: () => {
        this.#view.toEnd();
        this.#toolbar.setFollow(true, true);
      },
    });
    this.#toolbar.setFollow(true);
    part(root, "earlier").addEventListener("click", () => this.#lookBack());
    const { logSocket, logList, logRecords } = root.dataset as Record<string, string>;
    this.#feed = new MergedFeed(logSocket as string, logList as string, logRecords as string, {
      tasks: (tasks) => {
        for (const { log, name } of tasks) this.#buffer.add(log, name);
        this.#view.names = tasks.reduce((longest, { name }) => (name.length > longest.length ? name : longest), "");
      },
      records: (log, records, from) => {
        this.#buffer.append(log, records, from);
        this.#changed();
      },
      tail: (log, records) => {
        this.#buffer.tail(log, records);
        this.#changed();
      },
      live: (log) => this.#buffer.live(log),
      earlier: (parts) => {
        this.#loading = false;
        const lines = this.#buffer.prepend(parts);
        this.#view.shifted(lines);
        const dropped = this.#changed(parts.length > 0);
        this.#answer(Math.max(0, lines - dropped));
      },
      state: (state, retryMs) => {
        this.#loading = false;
        this.#answer(0);
        this.#toolbar.setState(state, retryMs);
      },
      lost: (nodes) => this.#toolbar.setLost(nodes.join(", ")),
    });
    whenGone(root, () => {
      back.end();
      this.#feed.close();
    });
  }

  get #live(): boolean {
    return this.#root.dataset["logState"] !== "ended";
  }

  /** Whether some log is not held from its beginning. */
  get #more(): boolean {
    return Object.keys(this.#buffer.reach).length > 0;
  }

  /** `fill`: a box that is not full yet looks further back by itself, as long as that brings something. Answers how many
   * lines were dropped. */
  #changed(fill = true): number {
    const dropped = this.#buffer.trim();
    if (dropped) this.#view.shifted(-dropped);
    const more = this.#more;
    part(this.#root, "cut").hidden = !more && !this.#buffer.dropped;
    part(this.#root, "earlier").hidden = !more;
    this.#toolbar.setCount(this.#buffer.lines.length + this.#buffer.dropped);
    this.#view.draw();
    this.#toolbar.searchSoon();
    if (fill && more && this.#view.roomy) this.#lookBack();
    return dropped;
  }

  #lookBack(): void {
    if (this.#loading || !this.#more) return;
    this.#loading = true;
    this.#feed.lookBack(this.#buffer.reach);
  }

  #further(): Promise<number> {
    const answered = new Promise<number>((done) => this.#asked.push(done));
    this.#lookBack();
    return answered;
  }

  /** What was asked for is here, or the connection on which it was asked for is not the one of now. */
  #answer(lines: number): void {
    for (const done of this.#asked.splice(0)) done(lines);
  }
}
