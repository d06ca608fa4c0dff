/** Shows lines, however many: only the rows in sight are elements. */

import { lineText, type Line } from "./lines.ts";
import { rowElement, taskElement } from "./row.ts";
import { RowIndex } from "./rows.ts";
import { isPlain, rowsOf } from "./width.ts";

const OVERSCAN_PX = 400;

/** What is shown: lines that grow at both ends. */
export interface Lines {
  lines: Line[];
  /** How many lines stand before the first one held; undefined when nobody has counted them. */
  before: number | undefined;
  /** The first position at which the lines are others than before; the view sets it back. */
  changedFrom: number;
}

interface Shown {
  element: HTMLElement;
  version: number;
}

export interface ViewHandlers {
  /** The reader (not this program) scrolled. */
  scrolled: (atBottom: boolean, atTop: boolean) => void;
}

export class LogView {
  search = "";
  current = -1;
  readonly #box: HTMLElement;
  readonly #sheet: HTMLElement;
  readonly #handlers: ViewHandlers;
  #buffer: Lines;
  readonly #index = new RowIndex();
  readonly #shown = new Map<Line, Shown>();
  #name = "";
  /** Rows as the browser laid them out, of lines whose width cannot be foretold. */
  readonly #measured = new WeakMap<Line, { version: number; columns: number; rows: number }>();
  #indexed = 0;
  #rowHeight = 20;
  #columns = Number.POSITIVE_INFINITY;
  #wrap = false;
  #follow = false;
  #frame = 0;
  #wantedTop = -1;

  constructor(box: HTMLElement, buffer: Lines, handlers: ViewHandlers) {
    this.#box = box;
    this.#buffer = buffer;
    this.#handlers = handlers;
    this.#sheet = document.createElement("div");
    this.#sheet.className = "log-sheet";
    box.replaceChildren(this.#sheet);
    box.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(box);
    this.#resized();
  }

  get follow(): boolean {
    return this.#follow;
  }

  set follow(follow: boolean) {
    this.#follow = follow;
    this.draw();
  }

  set wrap(wrap: boolean) {
    this.#wrap = wrap;
    this.#box.classList.toggle("is-wrapped", wrap);
    this.#resized();
  }

  set times(times: boolean) {
    this.#box.classList.toggle("has-times", times);
    this.#resized();
  }

  /** The longest name of a task that stands before a line; empty for none. */
  set names(longest: string) {
    if (this.#name === longest) return;
    this.#name = longest;
    this.#sheet.style.setProperty("--log-names", `${Math.min(28, longest.length)}ch`);
    this.#resized();
  }

  /** The first line in sight. */
  get top(): number {
    return this.#index.lineAt(Math.floor(this.#box.scrollTop / this.#rowHeight));
  }

  /** Whether what is held does not fill the box. */
  get roomy(): boolean {
    return this.#index.total * this.#rowHeight <= this.#box.clientHeight;
  }

  /** Shows other lines, from this one on. */
  show(buffer: Lines, line: number): void {
    this.#buffer = buffer;
    this.current = -1;
    this.#forget();
    this.#reindex();
    this.#size();
    this.#scrollTo(this.#index.before(line) * this.#rowHeight);
    this.#draw();
  }

  /** Lines were added at the end or changed there: draw with the next frame. */
  draw(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  /** Lines were put in front (or, negative, dropped there): what is in sight stays where it is. */
  shifted(lines: number): void {
    const top = this.#box.scrollTop;
    const before = this.#index.total;
    const gone = lines < 0 ? this.#index.before(-lines) : 0;
    this.#reindex();
    const rows = lines < 0 ? -gone : this.#index.total - before;
    if (this.current >= 0) this.current += lines;
    this.#scrollTo(Math.max(0, top + rows * this.#rowHeight));
    this.#draw();
  }

  /** Brings a line into the middle of the view. */
  reveal(line: number): void {
    this.#follow = false;
    this.#grow();
    const middle = this.#index.before(line) * this.#rowHeight - this.#box.clientHeight / 2;
    this.#size();
    this.#scrollTo(Math.max(0, middle));
    this.#forget();
    this.#draw();
  }

  toEnd(): void {
    this.#scrollTo(this.#box.scrollHeight);
    this.draw();
  }

  /** What the rows look like has changed (search): make them anew. */
  refresh(): void {
    this.#forget();
    this.draw();
  }

  #forget(): void {
    for (const { element } of this.#shown.values()) element.remove();
    this.#shown.clear();
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.#box;
    const byHand = Math.abs(scrollTop - this.#wantedTop) > 2;
    this.#wantedTop = -1;
    const atBottom = scrollTop + clientHeight >= scrollHeight - this.#rowHeight;
    if (byHand) this.#handlers.scrolled(atBottom, scrollTop < this.#rowHeight);
    this.draw();
  }

  #scrollTo(top: number): void {
    this.#box.scrollTop = top;
    this.#wantedTop = this.#box.scrollTop;
  }

  #resized(): void {
    const probe = document.createElement("div");
    probe.className = "log-row log-probe";
    const number = document.createElement("a");
    number.className = "log-number";
    const time = document.createElement("time");
    time.className = "log-time";
    time.textContent = "00:00:00.000";
    const text = document.createElement("span");
    text.className = "log-text";
    const sample = document.createElement("span");
    sample.textContent = "0".repeat(100);
    text.append(sample);
    probe.append(number, time);
    if (this.#name) probe.append(taskElement({ name: this.#name, colour: 0 }));
    probe.append(text);
    this.#sheet.append(probe);
    const width = sample.getBoundingClientRect().width / 100;
    this.#rowHeight = text.getBoundingClientRect().height || 20;
    const room = this.#box.clientWidth - (text.getBoundingClientRect().left - probe.getBoundingClientRect().left);
    this.#columns = this.#wrap && width > 0 ? Math.max(10, Math.floor((room - 12) / width)) : Number.POSITIVE_INFINITY;
    probe.remove();
    this.#sheet.style.setProperty("--log-columns", Number.isFinite(this.#columns) ? `${this.#columns * width + 0.5}px` : "none");
    this.#reindex();
    this.refresh();
  }

  #rowsOf(line: Line): number {
    if (!Number.isFinite(this.#columns)) return 1;
    const measured = this.#measured.get(line);
    if (measured?.version === line.version && measured.columns === this.#columns) return measured.rows;
    return rowsOf(lineText(line), this.#columns);
  }

  #reindex(): void {
    this.#index.reset(this.#buffer.lines.map((line) => this.#rowsOf(line)));
    this.#indexed = this.#buffer.lines.length;
    this.#buffer.changedFrom = Number.POSITIVE_INFINITY;
  }

  /** Takes new lines into the index; the last ones indexed may have grown since. */
  #grow(): void {
    const { lines, changedFrom } = this.#buffer;
    if (changedFrom < this.#indexed) {
      this.#index.truncate(changedFrom);
      this.#indexed = changedFrom;
    }
    this.#buffer.changedFrom = Number.POSITIVE_INFINITY;
    for (let at = Math.max(0, this.#indexed - 8); at < this.#indexed; at += 1) {
      const line = lines[at];
      if (line) this.#index.set(at, this.#rowsOf(line));
    }
    for (; this.#indexed < lines.length; this.#indexed += 1) {
      this.#index.append(this.#rowsOf(lines[this.#indexed] as Line));
    }
  }

  #size(): void {
    this.#sheet.style.height = `${this.#index.total * this.#rowHeight}px`;
  }

  #draw(): void {
    this.#grow();
    this.#size();
    if (this.#follow) this.#scrollTo(this.#box.scrollHeight);
    const { lines } = this.#buffer;
    const top = Math.max(0, this.#box.scrollTop - OVERSCAN_PX);
    const bottom = this.#box.scrollTop + this.#box.clientHeight + OVERSCAN_PX;
    const kept = new Set<Line>();
    let at = this.#index.lineAt(Math.floor(top / this.#rowHeight));
    let row = this.#index.before(at);
    for (; at < lines.length && row * this.#rowHeight < bottom; at += 1) {
      const line = lines[at] as Line;
      kept.add(line);
      this.#place(line, at, row);
      row += this.#index.rowsOf(at);
    }
    for (const [line, { element }] of this.#shown) {
      if (kept.has(line)) continue;
      element.remove();
      this.#shown.delete(line);
    }
  }

  #place(line: Line, at: number, row: number): void {
    let shown = this.#shown.get(line);
    if (shown?.version !== line.version) {
      const { before } = this.#buffer;
      const element = rowElement(line, {
        number: before === undefined ? undefined : before + at + 1,
        search: this.search,
        current: at === this.current,
      });
      shown?.element.remove();
      shown = { element, version: line.version };
      this.#shown.set(line, shown);
      this.#sheet.append(element);
      this.#measure(line, at, element);
    }
    shown.element.style.top = `${row * this.#rowHeight}px`;
    shown.element.style.height = `${this.#index.rowsOf(at) * this.#rowHeight}px`;
  }

  #measure(line: Line, at: number, element: HTMLElement): void {
    if (!Number.isFinite(this.#columns) || isPlain(lineText(line))) return;
    const height = element.lastElementChild?.getBoundingClientRect().height ?? 0;
    const rows = Math.max(1, Math.round(height / this.#rowHeight));
    this.#measured.set(line, { version: line.version, columns: this.#columns, rows });
    this.#index.set(at, rows);
  }
}
