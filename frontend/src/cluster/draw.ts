/** The map as elements. A GPU that looks as before is left alone; nodes that come or go make the map anew. */
import type { Gpu, MapNode } from "./data.ts";
import type { Look } from "./looks.ts";

export interface Spot {
  gpu: Gpu;
  node: MapNode;
  look: Look;
  /** Not what somebody looks for. */
  off: boolean;
}

export interface Drawing {
  /** The address of a node's page, without its name. */
  nodes: string;
  /** Of a job's page, without its number. */
  jobs: string;
  /** What a screen reader says of it. */
  label: (spot: Spot) => string;
  /** What is said of a node beside its name. */
  state: (state: string) => string;
  /** What stands above nodes of no rack, where others have one. */
  rackless: string;
}

const DENSE_FROM = 400;

export class Drawn {
  readonly box: HTMLElement;
  readonly drawing: Drawing;
  readonly spots = new WeakMap<Element, Spot>();
  #frame = "";
  #cells: HTMLAnchorElement[] = [];

  constructor(box: HTMLElement, drawing: Drawing) {
    [this.box, this.drawing] = [box, drawing];
  }

  /** `rows`: the spots of each node. */
  draw(nodes: MapNode[], rows: Spot[][]): void {
    const frame = JSON.stringify(nodes.map((node) => [node.name, node.section, node.gpus.length, node.groups]));
    if (frame !== this.#frame) this.#make(nodes);
    this.#frame = frame;
    let place = 0;
    nodes.forEach((node, number) => {
      this.#mark(node, rows[number] ?? [], place);
      for (const spot of rows[number] ?? []) this.#write(this.#cells[place++] as HTMLAnchorElement, spot);
    });
  }

  #make(nodes: MapNode[]): void {
    this.#cells = [];
    this.box.replaceChildren();
    this.box.classList.toggle("is-dense", nodes.length > DENSE_FROM);
    let list: HTMLElement | undefined;
    let section: string | undefined;
    const racked = nodes.some((node) => node.section);
    for (const node of nodes) {
      if (!list || node.section !== section) {
        section = node.section;
        const rack = made("div", "map-rack");
        list = made("ul", "map-nodes");
        rack.append(...(racked ? [made("h3", "map-section", section || this.drawing.rackless)] : []), list);
        this.box.append(rack);
      }
      list.append(this.#node(node));
    }
    this.#cells[0]?.setAttribute("tabindex", "0");
  }

  #node(node: MapNode): HTMLElement {
    const item = made("li", "map-node");
    const name = made("a", "map-name");
    name.tabIndex = -1;
    name.append(made("span", "map-word", node.name), made("span", "map-state"));
    (name as HTMLAnchorElement).href = this.drawing.nodes + encodeURIComponent(node.name);
    const gpus = made("div", "map-gpus");
    node.gpus.forEach((_, place) => {
      const cell = made("a", "dot-gpu") as HTMLAnchorElement;
      cell.tabIndex = -1;
      cell.dataset["gap"] = String(gapBefore(place, node.groups));
      this.#cells.push(cell);
      gpus.append(cell);
    });
    item.append(name, gpus);
    return item;
  }

  #mark(node: MapNode, spots: Spot[], place: number): void {
    const item = this.#cells[place]?.closest<HTMLElement>(".map-node");
    if (!item) return;
    item.dataset["state"] = node.state;
    item.classList.toggle("is-off", spots.length > 0 && spots.every((spot) => spot.off));
    const words = item.querySelector(".map-state");
    const said = node.state === "open" ? (node.why ? "!" : "") : this.drawing.state(node.state);
    if (words && words.textContent !== said) words.textContent = said;
  }

  #write(cell: HTMLAnchorElement, spot: Spot): void {
    const before = this.spots.get(cell);
    this.spots.set(cell, spot);
    const style = `dot-gpu ${spot.look.style}${spot.off ? " is-off" : ""}`;
    if (cell.className !== style) cell.className = style;
    if (cell.dataset["letter"] !== spot.look.letter) cell.dataset["letter"] = spot.look.letter;
    if (before && same(before.gpu, spot.gpu)) return;
    const job = spot.gpu.holder?.job;
    const address = job ? this.drawing.jobs + job : this.drawing.nodes + encodeURIComponent(spot.node.name);
    if (cell.getAttribute("href") !== address) cell.href = address;
    cell.setAttribute("aria-label", this.drawing.label(spot));
  }
}

function same(one: Gpu, other: Gpu): boolean {
  const holders = one.holder?.job === other.holder?.job && one.holder?.label === other.holder?.label;
  return holders && one.holder?.user === other.holder?.user && one.place === other.place && one.use === other.use;
}

/** How wide the gap before a GPU is: 0 none, 1 before a small cell (a PCIe or NVLink group), 2 before a larger one. */
export function gapBefore(place: number, groups: readonly [string, number][]): number {
  if (place === 0) return 0;
  const largest = groups.findIndex(([, size]) => size > 0 && place % size === 0);
  return largest < 0 ? 0 : Math.min(2, groups.length - largest);
}

function made(tag: string, style: string, text = ""): HTMLElement {
  const element = document.createElement(tag);
  element.className = style;
  element.textContent = text;
  return element;
}
