/** `data-job-table`: rows of a name and a value, added and removed. A row without a name is a draft of the page alone. */

import type { Row, Table } from "./tables.ts";

export class Rows {
  readonly table: Table;
  readonly #root: HTMLElement;
  readonly #list: HTMLElement;
  readonly #template: HTMLTemplateElement;

  constructor(root: HTMLElement, written: (rows: Row[]) => void) {
    this.#root = root;
    this.table = root.dataset["jobTable"] as Table;
    this.#list = root.querySelector<HTMLElement>("[data-rows]") as HTMLElement;
    this.#template = root.querySelector<HTMLTemplateElement>("template") as HTMLTemplateElement;
    root.addEventListener("input", () => this.#write(written));
    root.addEventListener("click", (event) => {
      const target = event.target as HTMLElement;
      if (target.closest("[data-row-add]")) this.add().focus();
      const named = target.closest<HTMLElement>("[data-row-named]")?.dataset["rowNamed"];
      if (named !== undefined && !this.#rows().some((row) => row.name === named)) {
        this.add({ name: named, value: "" });
        this.#write(written);
      }
      const removed = target.closest("[data-row-remove]")?.closest("[data-row]");
      if (removed) {
        removed.remove();
        this.#write(written);
      }
    });
  }

  add(row: Row = { name: "", value: "" }): HTMLInputElement {
    const made = (this.#template.content.cloneNode(true) as DocumentFragment).querySelector<HTMLElement>("[data-row]");
    this.#list.append(made as HTMLElement);
    fill(made as HTMLElement, row);
    return (made as HTMLElement).querySelector<HTMLInputElement>("[data-row-name]") as HTMLInputElement;
  }

  /** What the file says; rows that it does not know yet stay below. */
  show(rows: readonly Row[]): void {
    const elements = [...this.#list.querySelectorAll<HTMLElement>("[data-row]")];
    const named = elements.filter((element) => read(element).name !== "");
    named.slice(rows.length).forEach((element) => element.remove());
    rows.forEach((row, place) => {
      const element = named[place];
      if (element) fill(element, row);
      else {
        this.add(row);
        const drafts = elements.filter((one) => !named.includes(one));
        this.#list.append(...drafts);
      }
    });
  }

  #rows(): Row[] {
    return [...this.#list.querySelectorAll<HTMLElement>("[data-row]")].map(read);
  }

  #write(written: (rows: Row[]) => void): void {
    const rows = this.#rows().filter((row) => row.name !== "");
    const twice = rows.some((row, place) => rows.findIndex((other) => other.name === row.name) < place);
    const note = this.#root.querySelector<HTMLElement>("[data-rows-twice]");
    if (note) note.hidden = !twice;
    if (!twice) written(rows);
  }
}

function inputs(element: HTMLElement): [HTMLInputElement, HTMLInputElement] {
  const part = (name: string): HTMLInputElement => element.querySelector<HTMLInputElement>(`[data-row-${name}]`) as HTMLInputElement;
  return [part("name"), part("value")];
}

function read(element: HTMLElement): Row {
  const [name, value] = inputs(element);
  const row = { name: name.value.trim(), value: value.value };
  return value.disabled ? { ...row, whole: true } : row;
}

function fill(element: HTMLElement, row: Row): void {
  const [name, value] = inputs(element);
  if (name.value !== row.name) name.value = row.name;
  if (value.value !== row.value) value.value = row.value;
  value.disabled = row.whole === true;
}
