/** A figure with its table: uPlot above, and the table's numbers follow the pointer. */

import "uplot/dist/uPlot.min.css";

import uPlot from "uplot";

import { momentWords } from "../behaviours/times.ts";
import { type ChartData, colourOf, latest, numberWords } from "./data.ts";
import { drawn, options } from "./plot.ts";
import { ZOOM } from "./zoom.ts";

export class Chart {
  readonly #figure: HTMLElement;
  readonly #hidden = new Set<string>();
  readonly #resized: ResizeObserver;
  readonly #theme: MutationObserver;
  #box: HTMLElement | null = null;
  #text = "";
  #data: ChartData | undefined;
  #plot: uPlot | undefined;
  #zoomed = false;
  #pointed: number | null = null;

  constructor(figure: HTMLElement) {
    this.#figure = figure;
    this.#resized = new ResizeObserver(() => this.#plot?.setSize(this.#size));
    this.#theme = new MutationObserver(() => this.#plot?.redraw(true));
    this.#theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });
    document.addEventListener("htmx:after:swap", this.#reread);
    figure.addEventListener("click", this.#toggle);
    this.#reread();
  }

  get #size(): { width: number; height: number } {
    return { width: this.#box?.clientWidth ?? 0, height: this.#box?.clientHeight ?? 0 };
  }

  readonly #reread = (): void => {
    if (!this.#figure.isConnected) {
      this.#destroy();
      return;
    }
    const text = this.#figure.querySelector('script[type="application/json"]')?.textContent ?? "";
    if (text && text !== this.#text) this.#show(JSON.parse((this.#text = text)) as ChartData);
    else this.#legend();
  };

  #show(data: ChartData): void {
    const before = this.#data;
    this.#data = data;
    if (`${before?.span}` !== `${data.span}`) this.#zoomed = false;
    if (before && this.#plot && this.#box?.isConnected && sameLines(before, data)) {
      this.#plot.setData(drawn(data, this.#hidden), !this.#zoomed);
      if (this.#zoomed) this.#plot.redraw(true);
    } else this.#draw();
    this.#legend();
  }

  /** Anew: what is drawn has other lines, or another place. */
  #draw(): void {
    this.#plot?.destroy();
    const box = this.#figure.querySelector<HTMLElement>("[data-chart-plot]");
    if (!box) return; // nothing was measured yet
    if (box !== this.#box) {
      this.#box = box;
      this.#resized.observe(box);
      box.addEventListener("dblclick", () => this.#zoom(null));
    }
    const handlers = {
      pointed: (place: number | null) => this.#point(place),
      zoomed: (span: [number, number] | null) => this.#zoom(span),
    };
    const current = (): ChartData => this.#data as ChartData;
    const made = options(current, this.#hidden, this.#size, this.#figure.dataset["chartGroup"], handlers);
    this.#plot = new uPlot(made, drawn(current(), this.#hidden), box);
  }

  #zoom(span: [number, number] | null): void {
    this.#zoomed = span !== null;
    this.#figure.dispatchEvent(new CustomEvent(ZOOM, { bubbles: true, detail: span }));
  }

  #point(place: number | null): void {
    if (place === this.#pointed) return;
    this.#pointed = place;
    this.#legend();
  }

  /** Each row's key and number: of the moment under the pointer, else of the last one. */
  #legend(): void {
    const data = this.#data;
    if (!data) return;
    const place = this.#pointed;
    for (const row of this.#figure.querySelectorAll<HTMLElement>("[data-chart-line]")) {
      const number = Number(row.dataset["chartLine"]);
      const line = data.lines[number];
      if (!line) continue;
      row.style.setProperty("--key", `var(${colourOf(line, number)})`);
      row.querySelector("button")?.setAttribute("aria-pressed", String(!this.#hidden.has(line.name)));
      const cell = row.querySelector("[data-chart-now]");
      if (cell) cell.textContent = numberWords(place === null ? latest(line) : line.values[place]);
    }
    const head = this.#figure.querySelector<HTMLElement>("[data-chart-now-head]");
    if (!head) return;
    head.dataset["word"] ??= head.textContent ?? "";
    const at = place === null ? undefined : data.times[place];
    head.textContent = at === undefined ? head.dataset["word"] : momentWords(new Date(at * 1000));
  }

  readonly #toggle = (event: Event): void => {
    const row = (event.target as Element).closest("button")?.closest<HTMLElement>("[data-chart-line]");
    const line = this.#data?.lines[Number(row?.dataset["chartLine"])];
    if (!row || !line) return;
    if (!this.#hidden.delete(line.name)) this.#hidden.add(line.name);
    const { min = null, max = null } = this.#plot?.scales["x"] ?? {};
    this.#draw();
    if (this.#zoomed && min !== null && max !== null) this.#plot?.setScale("x", { min, max });
    this.#legend();
  };

  #destroy(): void {
    this.#resized.disconnect();
    this.#theme.disconnect();
    document.removeEventListener("htmx:after:swap", this.#reread);
    this.#plot?.destroy();
  }
}

function sameLines(one: ChartData, other: ChartData): boolean {
  const names = (data: ChartData): string => JSON.stringify([data.kind, data.names, data.lines.map((line) => line.name)]);
  return names(one) === names(other);
}
