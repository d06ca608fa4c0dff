/** Asks the server whether the job file would be accepted, while it is typed. */

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

export class Checker {
  readonly #address: string;
  readonly #token: string;
  readonly #done: (verdict: Verdict | undefined) => void;
  #timer = 0;
  #asking: AbortController | undefined;

  /** `done` gets what the server says of the newest text; undefined when it could not be asked. */
  constructor(address: string, token: string, done: (verdict: Verdict | undefined) => void) {
    this.#address = address;
    this.#token = token;
    this.#done = done;
  }

  check(text: string, pauseMs = PAUSE_MS): void {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#timer = window.setTimeout(() => void this.#ask(text), pauseMs);
  }

  async #ask(text: string): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    try {
      const answer = await fetch(this.#address, {
        method: "POST",
        body: text,
        headers: { "Content-Type": "application/yaml", "X-CSRFToken": this.#token },
        signal: asking.signal,
      });
      this.#done(answer.ok ? ((await answer.json()) as Verdict) : undefined);
    } catch {
      if (!asking.signal.aborted) this.#done(undefined);
    }
  }
}
