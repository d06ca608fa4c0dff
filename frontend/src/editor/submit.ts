/** The submit page: editor, simple form and the server's verdict on one job file. */

import { Asker, type Problem, type Verdict } from "./check.ts";
import { CodeEditor } from "./code.ts";
import { type Field, FIELDS, otherRoles, readFields, writeField } from "./fields.ts";
import { type Outlook, outlookWords, type Sentences } from "./outlook.ts";

/** An answer costs the server a second: asked once nothing was typed for so long. */
const OUTLOOK_PAUSE_MS = 700;

const PATHS: Record<Field, RegExp> = {
  name: /^name$/,
  vc: /^defaults(\.virtualCluster)?$/,
  image: /^prerequisites\b|\.dockerImage$/,
  instances: /\.instances$/,
  gpu: /\.gpu$|extras\.hivedScheduler/,
  cpu: /\.cpu$/,
  memoryMB: /\.memoryMB$/,
  commands: /\.commands\b/,
};

type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

export class SubmitPage {
  readonly #form: HTMLFormElement;
  readonly #source: HTMLTextAreaElement;
  readonly #editor: CodeEditor;
  readonly #checker: Asker<Verdict>;
  readonly #outlook: Asker<Outlook>;
  /** The form writes into the text right now: do not read it back into the field that is typed in. */
  #writing: Field | undefined;

  constructor(form: HTMLFormElement) {
    this.#form = form;
    this.#source = form.querySelector<HTMLTextAreaElement>("textarea[name=config]") as HTMLTextAreaElement;
    const token = form.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
    this.#checker = new Asker(form.dataset["jobCheck"] as string, token, (verdict) => this.#show(verdict));
    this.#outlook = new Asker(form.dataset["jobEstimate"] as string, token, (outlook) => this.#tell(outlook));
    const place = document.createElement("div");
    place.className = "editor";
    this.#source.after(place);
    this.#source.hidden = true;
    this.#editor = new CodeEditor(place, this.#source.value, this.#source.labels[0]?.textContent ?? "", (text) =>
      this.#changed(text),
    );
    for (const field of FIELDS) {
      this.#input(field)?.addEventListener("input", () => this.#write(field));
    }
    this.#read();
    this.#checker.ask(this.#editor.text, 0);
  }

  #input(field: Field): Input | null {
    return this.#form.querySelector<Input>(`[data-job-field="${field}"]`);
  }

  #part(name: string): HTMLElement | null {
    return this.#form.querySelector<HTMLElement>(`[data-job-${name}]`);
  }

  #changed(text: string): void {
    this.#source.value = text;
    this.#read();
    this.#state("checking");
    this.#outlook.forget();
    this.#checker.ask(text);
  }

  #write(field: Field): void {
    this.#writing = field;
    this.#editor.text = writeField(this.#editor.text, field, this.#input(field)?.value ?? "");
    this.#writing = undefined;
  }

  /** The text's values into the form. */
  #read(): void {
    const values = readFields(this.#editor.text);
    const fieldset = this.#part("fields") as HTMLFieldSetElement | null;
    if (fieldset) fieldset.disabled = values === undefined;
    if (values === undefined) return;
    for (const field of FIELDS) {
      const input = this.#input(field);
      if (input && field !== this.#writing) setValue(input, values[field] ?? "");
    }
    const others = otherRoles(this.#editor.text);
    const note = this.#part("others");
    if (note) note.hidden = others === 0;
  }

  #state(state: "checking" | "valid" | "invalid" | "unknown"): void {
    this.#form.dataset["jobState"] = state;
    const words = this.#part("verdict");
    if (words) words.textContent = this.#form.dataset[`word${state[0]?.toUpperCase()}${state.slice(1)}`] ?? "";
  }

  #show(verdict: Verdict | undefined): void {
    const problems = verdict?.problems ?? [];
    const valid = verdict !== undefined && problems.length === 0;
    this.#state(verdict === undefined ? "unknown" : valid ? "valid" : "invalid");
    if (valid) this.#outlook.ask(this.#editor.text, OUTLOOK_PAUSE_MS);
    else this.#tell(undefined);
    this.#editor.show(problems);
    this.#list(problems);
    this.#part("hints")?.replaceChildren(...(verdict?.hints ?? []).map(item));
    for (const field of FIELDS) {
      const found = problems.filter((problem) => PATHS[field].test(problem.path));
      const place = this.#form.querySelector<HTMLElement>(`[data-job-error="${field}"]`);
      if (place) place.textContent = found.map((problem) => problem.message).join(" ");
      this.#input(field)?.setAttribute("aria-invalid", String(found.length > 0));
    }
  }

  #tell(outlook: Outlook | undefined): void {
    const line = this.#part("outlook");
    if (!line) return;
    line.hidden = outlook === undefined;
    line.textContent = outlook ? outlookWords(outlook, { ...line.dataset } as unknown as Sentences) : "";
  }

  #list(problems: readonly Problem[]): void {
    const list = this.#part("problems");
    list?.replaceChildren(
      ...problems.map((problem) => {
        const item = document.createElement("li");
        const path = document.createElement(problem.line ? "button" : "span");
        path.className = "problem-path";
        path.textContent = problem.path || (this.#form.dataset["wordFile"] ?? "");
        if (problem.line) {
          const line = problem.line;
          path.setAttribute("type", "button");
          path.append(`:${line}`);
          path.addEventListener("click", () => this.#editor.goTo(line));
        }
        item.append(path, " ", problem.message);
        return item;
      }),
    );
  }
}

function item(text: string): HTMLElement {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

function setValue(input: Input, value: string): void {
  if (input.value === value) return;
  if (input instanceof HTMLSelectElement && ![...input.options].some((option) => option.value === value)) {
    const option = new Option(value, value);
    option.dataset["stranger"] = "";
    input.querySelector("[data-stranger]")?.remove();
    input.add(option);
  }
  input.value = value;
}
