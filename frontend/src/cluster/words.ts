/** What the map says, in the page's language: the template gives each sentence as `data-word-…`. */
import { language } from "../language.ts";
import type { Spot } from "./draw.ts";
import { BANDS, type Look } from "./looks.ts";

const numbers = new Intl.NumberFormat(language);

export class Words {
  readonly root: HTMLElement;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  word(name: string): string {
    return this.root.dataset[`word${(name[0] ?? "").toUpperCase()}${name.slice(1)}`] ?? name;
  }

  state(state: string): string {
    return this.word(state);
  }

  count(shown: number, all: number): string {
    const words = shown === all ? this.word("all") : this.word("some");
    return words.replace("%(shown)s", numbers.format(shown)).replace("%(all)s", numbers.format(all));
  }

  /** The lines of what is known about a GPU, the first its name. */
  lines(spot: Spot): string[] {
    const { gpu, node } = spot;
    const holder = gpu.holder;
    const place = gpu.place === "out" && node.state !== "open" ? this.word(node.state) : this.word(gpu.place);
    return [
      `${node.name} · GPU ${gpu.index}${node.sku ? ` · ${node.sku}` : ""}`,
      holder ? holder.label || this.word("other") : place,
      ...(holder ? [`${holder.vc} · ${holder.user} · ${place}`] : []),
      ...(gpu.use >= 0 ? [`${this.word("utilisation")} ${gpu.use} %`] : []),
      ...[gpu.fault, node.why].filter(Boolean),
    ];
  }

  of(spot: Spot): string {
    return this.lines(spot).join(", ");
  }

  legend(key: string, look: Look, count: number, pressed: boolean): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset["key"] = key;
    button.className = "map-key";
    button.setAttribute("aria-pressed", String(pressed));
    const dot = document.createElement("span");
    dot.className = `dot-gpu ${look.style}`;
    dot.dataset["letter"] = look.letter;
    dot.setAttribute("aria-hidden", "true");
    const number = document.createElement("span");
    number.className = "muted";
    number.textContent = numbers.format(count);
    button.append(dot, this.#name(key), " ", number);
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  #name(key: string): string {
    if (key.startsWith("vc:")) return key.slice(3);
    if (!key.startsWith("use:")) return this.word(key);
    const band = Number(key.slice(4));
    const next = BANDS[band + 1];
    return next === undefined ? `≥ ${BANDS[band]} %` : band === 0 ? `< ${next} %` : `${BANDS[band]}–${next} %`;
  }
}
