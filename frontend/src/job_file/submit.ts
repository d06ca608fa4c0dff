/** The submit page: editor, simple form and the server's verdict on one job file. */

import { Asker, type Problem, type Verdict } from "./check.ts";
import { CodeEditor } from "./code.ts";
import { JobForm, typedEarly } from "./form.ts";
import { type Outlook, outlookWords, type Sentences } from "./outlook.ts";

/** An answer costs the server a second: asked once nothing was typed for so long. */
const OUTLOOK_PAUSE_MS = 700;

export class SubmitPage {
  readonly #form: HTMLFormElement;
  readonly #source: HTMLTextAreaElement;
  readonly #editor: CodeEditor;
  readonly #checker: Asker<Verdict>;
  /** None where no job is submitted: on the page of a template. */
  readonly #outlook: Asker<Outlook> | undefined;
  readonly #fields: JobForm | undefined;

  constructor(form: HTMLFormElement) {
    this.#form = form;
    this.#source = form.querySelector<HTMLTextAreaElement>("textarea[name=config]") as HTMLTextAreaElement;
    const token = form.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
    this.#checker = new Asker(form.dataset["jobCheck"] as string, token, (verdict) => this.#show(verdict));
    const estimate = form.dataset["jobEstimate"];
    this.#outlook = estimate ? new Asker(estimate, token, (outlook) => this.#tell(outlook, "unknown")) : undefined;
    const place = document.createElement("div");
    place.className = "editor";
    this.#source.after(place);
    this.#source.hidden = true;
    this.#editor = new CodeEditor(place, this.#source.value, this.#source.labels[0]?.textContent ?? "", (text) =>
      this.#changed(text),
    );
    const fields = form.querySelector<HTMLElement>("[data-job-form]");
    const typed = fields ? typedEarly(fields) : [];
    this.#fields = fields ? new JobForm(fields, (edit) => this.#edit(edit)) : undefined;
    this.#fields?.show(this.#editor.text);
    for (const type of typed) type();
    this.#checker.ask(this.#editor.text, 0);
  }

  #part(name: string): HTMLElement | null {
    return this.#form.querySelector<HTMLElement>(`[data-job-${name}]`);
  }

  #changed(text: string): void {
    this.#source.value = text;
    this.#fields?.show(text);
    this.#state("checking");
    this.#outlook?.forget();
    this.#part("outlook")?.setAttribute("aria-busy", "true");
    this.#checker.ask(text);
  }

  /** The form changes the text; where it does not, the form shows again what the text says. */
  #edit(edit: (text: string) => string): void {
    const before = this.#editor.text;
    this.#editor.text = edit(before);
    if (this.#editor.text === before) this.#fields?.show(before);
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
    if (valid) this.#ask();
    else this.#tell(undefined, "none");
    this.#editor.show(problems);
    this.#list(problems);
    this.#part("hints")?.replaceChildren(...(verdict?.hints ?? []).map(item));
    this.#fields?.explain(this.#editor.text, problems);
  }

  /** What the scheduler said of an earlier text stays until it answers. */
  #ask(): void {
    const line = this.#part("outlook");
    if (!line || !this.#outlook) return;
    if (line.classList.contains("is-none")) line.textContent = line.dataset["asking"] ?? "";
    line.setAttribute("aria-busy", "true");
    this.#outlook.ask(this.#editor.text, OUTLOOK_PAUSE_MS);
  }

  /** `otherwise`: the sentence where there is no answer. */
  #tell(outlook: Outlook | undefined, otherwise: "none" | "unknown"): void {
    const line = this.#part("outlook");
    if (!line) return;
    line.removeAttribute("aria-busy");
    line.classList.toggle("is-now", outlook?.waiting === null);
    line.classList.toggle("is-none", outlook === undefined);
    const words = outlook && outlookWords(outlook, { ...line.dataset } as unknown as Sentences);
    line.textContent = words ?? line.dataset[otherwise] ?? "";
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
