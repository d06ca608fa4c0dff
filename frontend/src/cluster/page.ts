/** `data-cluster-map`: the map of the cluster, its legend, its search, and what is said of the GPU that one looks at. */
import { addressOf, type Choice, choiceOf, fits } from "./choice.ts";
import { type Dots, type MapNode, nodesOf } from "./data.ts";
import { Drawn, type Spot } from "./draw.ts";
import { keys } from "./keys.ts";
import { BANDS, Looks, type Mode } from "./looks.ts";
import { Tip } from "./tip.ts";
import { Words } from "./words.ts";

const TYPED_MS = 120;

export class ClusterMap {
  readonly #root: HTMLElement;
  readonly #words: Words;
  readonly #drawn: Drawn;
  #choice: Choice = choiceOf(location.search);
  #vcs: string[] = [];
  #nodes: MapNode[] = [];
  #asked = false;
  #mark = ""; // of what is drawn: the browser keeps no answer
  #typed = 0;

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#words = new Words(root);
    const box = part(root, "box");
    this.#drawn = new Drawn(box, {
      nodes: root.dataset["mapNodes"] ?? "",
      jobs: root.dataset["mapJobs"] ?? "",
      label: (spot) => this.#words.of(spot),
      state: (state) => this.#words.state(state),
      rackless: this.#words.word("rackless"),
    });
    keys(box);
    new Tip(root, this.#drawn, this.#words);
    this.#controls();
    root.addEventListener("berth:refresh", () => void this.#read());
    void this.#read();
  }

  async #read(): Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    try {
      const headers = new Headers(this.#mark === "" ? [] : [["If-None-Match", this.#mark]]);
      const answer = await fetch(this.#root.dataset["clusterMap"] ?? "", { cache: "no-store", headers });
      if (answer.redirected) location.reload(); // signed out: the page asks for the name, and comes back
      if (answer.status !== 304) await this.#take(answer);
      this.#root.dataset["mapState"] = "live";
    } catch {
      this.#root.dataset["mapState"] = "stale";
    } finally {
      this.#asked = false;
    }
  }

  async #take(answer: Response): Promise<void> {
    if (!answer.ok) throw new Error(String(answer.status));
    const dots = (await answer.json()) as Dots;
    [this.#vcs, this.#nodes] = [dots.vcs, nodesOf(dots)];
    this.#mark = answer.headers.get("ETag") ?? "";
    this.#draw();
  }

  #controls(): void {
    for (const input of this.#root.querySelectorAll<HTMLInputElement>("input[name=by]")) {
      input.checked = input.value === this.#choice.mode;
      input.addEventListener("change", () => this.#choose({ mode: input.value as Mode, only: new Set() }));
    }
    const search = part(this.#root, "search") as HTMLInputElement;
    search.value = this.#choice.text;
    search.addEventListener("input", () => {
      clearTimeout(this.#typed);
      this.#typed = window.setTimeout(() => this.#choose({ text: search.value.trim() }), TYPED_MS);
    });
    part(this.#root, "legend").addEventListener("click", (event) => {
      const key = (event.target as Element).closest<HTMLElement>("[data-key]")?.dataset["key"];
      if (key === undefined) return;
      const only = new Set(this.#choice.only);
      if (!only.delete(key)) only.add(key);
      this.#choose({ only });
    });
  }

  #choose(change: Partial<Choice>): void {
    this.#choice = { ...this.#choice, ...change };
    history.replaceState(null, "", addressOf(location.pathname, this.#choice, location.search));
    this.#draw();
  }

  #draw(): void {
    const { mode, only, text } = this.#choice;
    const looks = new Looks(mode, this.#vcs);
    const counts = new Map<string, number>();
    let shown = 0;
    let all = 0;
    const rows = this.#nodes.map((node) =>
      node.gpus.map((gpu): Spot => {
        const look = looks.of(gpu, node);
        const found = fits(text, gpu, node);
        const keys = look.also ? [look.key, look.also] : [look.key];
        if (found) for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
        const off = !found || (only.size > 0 && !keys.some((key) => only.has(key)));
        all += 1;
        shown += off ? 0 : 1;
        return { gpu, node, look, off };
      }),
    );
    this.#drawn.draw(this.#nodes, rows);
    part(this.#root, "count").textContent = this.#words.count(shown, all);
    this.#legend(looks, counts);
  }

  #legend(looks: Looks, counts: Map<string, number>): void {
    const fixed = ["free", "held", "lent", "well", ...BANDS.map((_, band) => `use:${band}`)];
    const last = ["unknown", "cordoned", "draining", "out", "lost", "sick"];
    const teams = this.#vcs.map((vc) => looks.team(vc).key);
    const known = [...teams, ...fixed, ...last].filter((key) => counts.has(key) || this.#choice.only.has(key));
    const buttons = known.map((key) =>
      this.#words.legend(key, looks.named(key), counts.get(key) ?? 0, this.#choice.only.has(key)),
    );
    const legend = part(this.#root, "legend");
    const focused = legend.contains(document.activeElement) ? document.activeElement : null;
    const key = (focused as HTMLElement | null)?.dataset["key"];
    legend.replaceChildren(...buttons);
    if (key) legend.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }
}

export function part(root: HTMLElement, name: string): HTMLElement {
  const found = root.querySelector<HTMLElement>(`[data-map-${name}]`);
  if (!found) throw new Error(`the map has no ${name}`);
  return found;
}
