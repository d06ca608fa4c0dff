/** What is known about the GPU that one looks at, beside it. A finger's first touch shows it, with links to go on. */
import type { Drawn } from "./draw.ts";
import type { Words } from "./words.ts";

export class Tip {
  readonly drawn: Drawn;
  readonly words: Words;
  readonly #tip: HTMLElement;

  constructor(root: HTMLElement, drawn: Drawn, words: Words) {
    [this.drawn, this.words] = [drawn, words];
    this.#tip = document.createElement("div");
    this.#tip.className = "map-tip";
    this.#tip.hidden = true;
    root.append(this.#tip);
    const box = drawn.box;
    box.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") this.#show(event.target as Element, false);
    });
    box.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.#hide();
    });
    box.addEventListener("focusin", (event) => this.#show(event.target as Element, false));
    box.addEventListener("focusout", () => this.#hide());
    box.addEventListener("click", (event) => {
      const touched = (event as PointerEvent).pointerType === "touch";
      if (touched && this.#show(event.target as Element, true)) event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#hide();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!root.contains(event.target as Element)) this.#hide();
    });
  }

  #hide(): void {
    this.#tip.hidden = true;
  }

  #show(target: Element, links: boolean): boolean {
    const cell = target.closest(".dot-gpu");
    const spot = cell && this.drawn.spots.get(cell);
    if (!cell || !spot) {
      this.#hide();
      return false;
    }
    const lines = this.words.lines(spot).map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    });
    this.#tip.replaceChildren(...lines);
    this.#tip.classList.toggle("has-links", links);
    if (links) this.#tip.append(...this.#links(spot.node.name, spot.gpu.holder?.job));
    this.#tip.hidden = false;
    this.#put(cell.getBoundingClientRect());
    return true;
  }

  #links(node: string, job: number | undefined): HTMLElement[] {
    const link = (href: string, text: string): HTMLElement => {
      const made = document.createElement("a");
      made.href = href;
      made.textContent = text;
      return made;
    };
    const { nodes, jobs } = this.drawn.drawing;
    const found = [link(nodes + encodeURIComponent(node), this.words.word("openNode"))];
    return job ? [link(`${jobs}${job}`, this.words.word("openJob")), ...found] : found;
  }

  #put(near: DOMRect): void {
    const size = this.#tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(near.left, innerWidth - size.width - 8));
    const below = near.bottom + 6;
    const top = below + size.height > innerHeight ? near.top - size.height - 6 : below;
    this.#tip.style.left = `${left}px`;
    this.#tip.style.top = `${Math.max(8, top)}px`;
  }
}
