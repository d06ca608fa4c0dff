/** The logs of several tasks of a job as one: ordered by time, the task's name on each line. */

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

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#view = new LogView(part(root, "box"), this.#buffer, {
      scrolled: (atBottom, atTop) => {
        this.#toolbar.setFollow(atBottom && this.#live, atBottom);
        if (atTop) this.#lookBack();
      },
    });
    this.#toolbar = new Toolbar(root, this.#view, {
      lines: () => this.#buffer,
      live: () => this.#live,
      newest: () => {
        this.#view.toEnd();
        this.#toolbar.setFollow(true, true);
      },
    });
    this.#toolbar.setFollow(true);
    part(root, "earlier").addEventListener("click", () => this.#lookBack());
    this.#feed = new MergedFeed(root.dataset["logSocket"] as string, {
      tasks: (tasks) => {
        for (const { log, name } of tasks) this.#buffer.add(log, name);
        this.#view.names = tasks.reduce((longest, { name }) => (name.length > longest.length ? name : longest), "");
      },
      records: (log, records, from) => {
        this.#buffer.append(log, records, from);
        this.#changed();
      },
      earlier: (parts) => {
        this.#loading = false;
        this.#view.shifted(this.#buffer.prepend(parts));
        this.#changed(parts.length > 0);
      },
      state: (state, retryMs) => {
        this.#loading = false;
        this.#toolbar.setState(state, retryMs);
      },
      lost: (nodes) => this.#toolbar.setLost(nodes.join(", ")),
    });
    whenGone(root, () => this.#feed.close());
  }

  get #live(): boolean {
    return this.#root.dataset["logState"] !== "ended";
  }

  /** `fill`: a box that is not full yet looks further back by itself, as long as that brings something. */
  #changed(fill = true): void {
    const dropped = this.#buffer.trim();
    if (dropped) this.#view.shifted(-dropped);
    const more = Object.keys(this.#buffer.reach).length > 0;
    part(this.#root, "cut").hidden = !more && !this.#buffer.dropped;
    part(this.#root, "earlier").hidden = !more;
    this.#toolbar.setCount(this.#buffer.lines.length + this.#buffer.dropped);
    this.#view.draw();
    this.#toolbar.searchSoon();
    if (fill && more && this.#view.roomy) this.#lookBack();
  }

  #lookBack(): void {
    const { reach } = this.#buffer;
    if (this.#loading || Object.keys(reach).length === 0) return;
    this.#loading = true;
    this.#feed.lookBack(reach);
  }
}
