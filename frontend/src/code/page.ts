/** `data-code`: a folder or a zip archive of code is picked or dropped, packed and uploaded; its id goes into the file. */

import { fill } from "../job_file/outlook.ts";
import { type Limits, amount, Refusal } from "./refusal.ts";
import { archive, filesOf, send } from "./sending.ts";

type Picked = { path: string; file: File };

export class CodePage {
  readonly #root: HTMLElement;
  readonly #limits: Limits;
  #sending: AbortController | undefined;

  constructor(root: HTMLElement) {
    this.#root = root;
    const number = (name: string): number => Number(root.dataset[name]);
    this.#limits = { size: number("size"), unpacked: number("unpacked"), entries: number("entries") };
    for (const input of root.querySelectorAll<HTMLInputElement>("input[type=file]")) {
      input.addEventListener("change", () => {
        const picked = [...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
        input.value = "";
        if (picked.length > 0) void this.#take(async () => picked);
      });
    }
    // A file that is dropped beside the place would be opened instead of the page, and what was typed lost.
    for (const kind of ["dragover", "drop"] as const) document.addEventListener(kind, onlyHere);
    root.addEventListener("dragover", () => root.classList.add("is-over"));
    root.addEventListener("dragleave", () => root.classList.remove("is-over"));
    root.addEventListener("drop", (event) => {
      root.classList.remove("is-over");
      const entries = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry());
      void this.#take(async () => (await Promise.all(entries.map((entry) => walked(entry, "")))).flat());
    });
    this.#part("cancel")?.addEventListener("click", () => this.#sending?.abort());
    this.#part("remove")?.addEventListener("click", () => {
      this.#name("");
      this.#say("");
    });
  }

  async #take(pick: () => Promise<Picked[]>): Promise<void> {
    this.#sending?.abort();
    const sending = (this.#sending = new AbortController());
    const bar = this.#part("progress") as HTMLProgressElement | null;
    this.#busy(true);
    bar?.removeAttribute("value");
    this.#say("Packing");
    try {
      const { content, files } = await archive(await filesOf(await pick(), this.#limits), this.#limits);
      if (sending.signal.aborted) throw new Refusal("Stopped");
      const about = { files: String(files), size: amount(content.size) };
      this.#say("Sending", about);
      const token = document.querySelector<HTMLInputElement>("[name=csrfmiddlewaretoken]")?.value ?? "";
      const id = await send(content, this.#root.dataset["code"] ?? "", token, (part) => bar && (bar.value = part), sending.signal);
      this.#name(id);
      this.#say("Done", about);
    } catch (error) {
      if (sending === this.#sending) this.#refused(error);
    } finally {
      if (sending === this.#sending) this.#busy(false);
    }
  }

  #part(name: string): HTMLElement | null {
    return this.#root.querySelector<HTMLElement>(`[data-code-${name}]`);
  }

  #busy(busy: boolean): void {
    for (const name of ["progress", "cancel"]) {
      const part = this.#part(name);
      if (part) part.hidden = !busy;
    }
  }

  #say(word: string, values: Record<string, string> = {}, bad = false): void {
    const line = this.#part("state");
    if (!line) return;
    line.textContent = word && fill(this.#root.dataset[`word${word}`] ?? "", values);
    line.classList.toggle("field-error", bad);
  }

  #refused(error: unknown): void {
    const refusal = error instanceof Refusal ? error : new Refusal("Unreadable");
    this.#say(refusal.word, refusal.values, true);
  }

  /** Into the field of the form, which writes it into the file. */
  #name(id: string): void {
    const field = this.#root.querySelector<HTMLInputElement>("[data-job-field=code]");
    if (!field) return;
    field.value = id;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

function onlyHere(event: DragEvent): void {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
}

/** The files below what was dropped. */
async function walked(entry: FileSystemEntry | null, above: string): Promise<Picked[]> {
  if (!entry || entry.name === ".git") return [];
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Picked[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    found.push(...(await Promise.all(some.map((one) => walked(one, `${path}/`)))).flat());
  }
}
