/** The form beside the file: its fields, its task roles and its tables. */

import type { Problem } from "./check.ts";
import { showClasses } from "./classes.ts";
import { JOB_FIELDS, readJob, ROLE_FIELDS, type Values, writeField } from "./fields.ts";
import { offerShare, showUnused } from "./hardware.ts";
import { placed } from "./places.ts";
import { addRole, removeRole, renameRole } from "./roles.ts";
import { Rows } from "./rows.ts";
import { readTable, writeTable } from "./tables.ts";

type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
type Edit = (text: string) => string;

export class JobForm {
  readonly #root: HTMLElement;
  readonly #change: (edit: Edit) => void;
  readonly #tables = new WeakMap<Element, Rows>();
  #names: string[] = [];
  /** What the form writes into the text from right now: it is not read back into there. */
  #writing: Element | undefined;
  #typedIn: HTMLInputElement | HTMLTextAreaElement | undefined;

  /** `change` gets what shall be done to the text, and shows the result. */
  constructor(root: HTMLElement, change: (edit: Edit) => void) {
    this.#root = root;
    this.#change = change;
    root.addEventListener("input", (event) => this.#typed(event.target as HTMLElement));
    root.addEventListener("click", (event) => this.#clicked(event.target as HTMLElement));
    root.addEventListener("focusin", (event) => {
      const target = event.target as HTMLElement;
      if (target.matches("[data-job-field=commands], [data-row-value]")) this.#typedIn = target as HTMLTextAreaElement;
    });
    // A name that cannot be is not kept: what the file says stands there again.
    root.addEventListener("focusout", (event) => {
      if ((event.target as HTMLElement).matches("[data-role-name]")) this.#write(undefined, (text) => text);
    });
    this.#bind(root);
  }

  /** The text's values into the form. */
  show(text: string): void {
    const job = readJob(text);
    const fields = this.#root.querySelector<HTMLFieldSetElement>("[data-job-fields]");
    if (fields) fields.disabled = job === undefined;
    if (job === undefined) return;
    this.#names = job.roles.map((role) => role.name);
    this.#fitCards(job.roles.length);
    this.#fill(this.#own(this.#root, "[data-job-field]"), job.values, JOB_FIELDS);
    this.#showTables(text, this.#own(this.#root, "[data-job-table]"), "");
    this.#cards().forEach((card, place) => {
      const role = job.roles[place];
      if (!role) return;
      const name = card.querySelector<HTMLInputElement>("[data-role-name]");
      if (name && name !== this.#writing) name.value = role.name;
      this.#fill([...card.querySelectorAll<HTMLElement>("[data-job-field]")], role.values, ROLE_FIELDS);
      this.#showTables(text, [...card.querySelectorAll<HTMLElement>("[data-job-table]")], role.name);
      const remove = card.querySelector<HTMLButtonElement>("[data-role-remove]");
      if (remove) remove.hidden = job.roles.length < 2;
    });
    showUnused(this.#root);
    showClasses(this.#root);
  }

  /** Each problem beside its field. */
  explain(text: string, problems: readonly Problem[]): void {
    this.#root.querySelectorAll("[data-job-error]").forEach((place) => place.replaceChildren());
    this.#root.querySelectorAll("[aria-invalid]").forEach((input) => input.removeAttribute("aria-invalid"));
    const cards = this.#cards();
    for (const [{ field, role }, found] of placed(text, problems)) {
      const within = role === undefined ? this.#root : cards[role];
      const own = (selector: string): HTMLElement | undefined =>
        within && (role === undefined ? this.#own(within, selector)[0] : (within.querySelector<HTMLElement>(selector) ?? undefined));
      const place = own(`[data-job-error="${field}"]`);
      if (!place) continue;
      place.textContent = found.map((problem) => problem.message).join(" ");
      place.closest("details")?.setAttribute("open", "");
      own(`[data-job-field="${field}"]`)?.setAttribute("aria-invalid", "true");
      if (within && role !== undefined && (field === "cpu" || field === "memoryMB")) offerShare(this.#root, within);
    }
  }

  #cards(): HTMLElement[] {
    return [...this.#root.querySelectorAll<HTMLElement>("[data-job-role]")];
  }

  /** What stands in the form itself, not in the card of a task role. */
  #own(root: HTMLElement, selector: string): HTMLElement[] {
    return [...root.querySelectorAll<HTMLElement>(selector)].filter((element) => !element.closest("[data-job-role]"));
  }

  #roleOf(element: Element): string {
    const card = element.closest<HTMLElement>("[data-job-role]");
    return card ? (this.#names[this.#cards().indexOf(card)] ?? "") : "";
  }

  #bind(root: ParentNode): void {
    for (const element of root.querySelectorAll<HTMLElement>("[data-job-table]")) {
      const rows = new Rows(element, (now) => {
        this.#write(element, (text) => writeTable(text, rows.table, now, this.#roleOf(element)));
      });
      this.#tables.set(element, rows);
    }
  }

  #write(from: Element | undefined, edit: Edit): void {
    this.#writing = from;
    this.#change(edit);
    this.#writing = undefined;
  }

  #typed(target: HTMLElement): void {
    const role = this.#roleOf(target);
    if (target.matches("[data-role-name]")) {
      this.#write(target, (text) => renameRole(text, role, (target as HTMLInputElement).value));
      return;
    }
    const field = target.dataset["jobField"];
    if (field === undefined) return;
    this.#write(target, (text) => writeField(text, field, valueOf(target as Input), role));
    const card = target.closest<HTMLElement>("[data-job-role]");
    if (card && (field === "gpu" || field === "sku")) offerShare(this.#root, card);
  }

  #clicked(target: HTMLElement): void {
    if (target.closest("[data-role-add]")) {
      this.#write(undefined, addRole);
      this.#cards().at(-1)?.querySelector<HTMLElement>("[data-role-name]")?.focus();
    }
    const role = this.#roleOf(target);
    if (target.closest("[data-role-remove]")) this.#write(undefined, (text) => removeRole(text, role));
    const share = target.closest<HTMLElement>("[data-role-share]");
    if (share) {
      const { cpu = "", memory = "" } = share.dataset;
      this.#write(undefined, (text) => writeField(writeField(text, "cpu", cpu, role), "memoryMB", memory, role));
      share.hidden = true;
    }
    const reference = target.closest<HTMLElement>("[data-insert]")?.dataset["insert"];
    if (reference !== undefined) this.#insert(reference);
  }

  /** Puts a reference where one typed last: a command or a value; else into the first command. */
  #insert(reference: string): void {
    const into = this.#typedIn?.isConnected
      ? this.#typedIn
      : this.#root.querySelector<HTMLTextAreaElement>("[data-job-field=commands]");
    if (!into) return;
    into.focus();
    into.setRangeText(reference, into.selectionStart ?? 0, into.selectionEnd ?? 0, "end");
    into.dispatchEvent(new Event("input", { bubbles: true }));
  }

  #fitCards(wanted: number): void {
    const cards = this.#cards();
    cards.slice(wanted).forEach((card) => card.remove());
    const template = this.#root.querySelector<HTMLTemplateElement>("[data-job-role-template]");
    const list = this.#root.querySelector("[data-job-roles]");
    for (let made = cards.length; template && list && made < wanted; made += 1) {
      const card = (template.content.cloneNode(true) as DocumentFragment).querySelector("[data-job-role]") as HTMLElement;
      list.append(card);
      this.#bind(card);
    }
  }

  #fill(inputs: HTMLElement[], values: Values, places: typeof JOB_FIELDS): void {
    for (const element of inputs) {
      const input = element as Input;
      const field = input.dataset["jobField"] ?? "";
      if (input !== this.#writing) setValue(input, values[field] ?? places[field]?.usual ?? "");
    }
  }

  #showTables(text: string, elements: HTMLElement[], role: string): void {
    for (const element of elements) {
      const rows = this.#tables.get(element);
      if (rows && element !== this.#writing) rows.show(readTable(text, rows.table, role));
    }
  }
}

/** What was typed into the fields before there was a form to take it, each to be typed again. */
export function typedEarly(root: HTMLElement): (() => void)[] {
  return [...root.querySelectorAll<Input>("[data-job-field]")].filter(isTyped).map((input) => {
    const value = valueOf(input);
    return () => {
      setValue(input, value);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    };
  });
}

function isTyped(input: Input): boolean {
  if (input instanceof HTMLSelectElement) {
    const usual = [...input.options].findIndex((option) => option.defaultSelected);
    return input.selectedIndex !== Math.max(0, usual);
  }
  if (input instanceof HTMLInputElement && input.type === "checkbox") return input.checked !== input.defaultChecked;
  return input.value !== input.defaultValue;
}

function valueOf(input: Input): string {
  return input instanceof HTMLInputElement && input.type === "checkbox" ? String(input.checked) : input.value;
}

function setValue(input: Input, value: string): void {
  if (input instanceof HTMLInputElement && input.type === "checkbox") {
    input.checked = value === "true";
    return;
  }
  if (input.value === value) return;
  if (input instanceof HTMLSelectElement && ![...input.options].some((option) => option.value === value)) {
    const option = new Option(value, value);
    option.dataset["stranger"] = "";
    input.querySelector("[data-stranger]")?.remove();
    input.add(option);
  }
  input.value = value;
}
