/** Asks the server about the job file while it is typed: whether it would be accepted, what would become of it. */

export interface Problem {
  /** Such as `taskRoles.worker.instances`; empty for the whole file. */
  path: string;
  message: string;
  line: number | null;
}

export interface Verdict {
  problems: Problem[];
  /** What to know of a valid file though nothing is wrong with it. */
  hints: string[];
  summary: { name: string; vc: string; task_count: number; gpu_count: number } | null;
}

const PAUSE_MS = 300;

export class Asker<Answer> {
  readonly #address: string;
  readonly #token: string;
  readonly #done: (answer: Answer | undefined) => void;
  #timer = 0;
  #asking: AbortController | undefined;

  /** `done` gets what the server says of the newest text; undefined when it could not be asked. */
  constructor(address: string, token: string, done: (answer: Answer | undefined) => void) {
    this.#address = address;
    this.#token = token;
    this.#done = done;
  }

  ask(text: string, pauseMs = PAUSE_MS): void {
    this.forget();
    this.#timer = window.setTimeout(() => void this.#ask(text), pauseMs);
  }

  /** Whatever was asked is not wanted any more. */
  forget(): void {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  async #ask(text: string): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    try {
      const answer = await fetch(this.#address, {
        method: "POST",
        body: text,
        headers: {
          "Content-Type": "application/yaml",
          "X-CSRFToken": this.#token,
          "Accept-Language": document.documentElement.lang,
        },
        signal: asking.signal,
      });
      this.#done(answer.ok ? ((await answer.json()) as Answer) : undefined);
    } catch {
      if (!asking.signal.aborted) this.#done(undefined);
    }
  }
}
