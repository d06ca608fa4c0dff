/** A shell in a running task: its websocket (`portal/terminal/consumer.py`), its screen, and what is said of it. */

import { Screen } from "./screen.ts";
import { Typing } from "./typing.ts";

interface Told {
  type: "started" | "taken" | "end";
  window?: number;
  bytes?: number;
  code?: number | null;
  message?: string;
}

/** The portal closes with a reason of its own. */
const REFUSED = new Set([4401, 4403, 4404, 4409, 4429]);

function part(root: HTMLElement, name: string): HTMLElement {
  return root.querySelector<HTMLElement>(`[data-terminal-${name}]`) as HTMLElement;
}

export class JobTerminal {
  readonly #root: HTMLElement;
  #screen: Screen | undefined;
  #socket: WebSocket | undefined;
  #typing: Typing | undefined;
  #last = "";

  constructor(root: HTMLElement) {
    this.#root = root;
    part(root, "open").addEventListener("click", () => this.#open());
    part(root, "close").addEventListener("click", () => this.#socket?.close());
    this.#say("idle");
  }

  #open(): void {
    part(this.#root, "box").hidden = false;
    this.#screen ??= new Screen(part(this.#root, "box"), this.#word("skipped"), {
      typed: (data) => this.#typing?.type(data),
      resized: (rows, columns) => this.#send({ type: "resize", rows, columns }),
      left: () => part(this.#root, "close").focus(),
    });
    this.#last = "";
    this.#say("connecting");
    const url = new URL(this.#root.dataset["terminalSocket"] as string, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#typing = new Typing((piece) => socket.send(piece as Uint8Array<ArrayBuffer>));
    socket.addEventListener("open", () =>
      this.#send({ type: "start", ...this.#screen?.size, term: "xterm-256color" }),
    );
    socket.addEventListener("message", (event: MessageEvent<string | ArrayBuffer>) => this.#took(event.data));
    socket.addEventListener("close", (event) => this.#closed(event));
  }

  #send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #took(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      this.#screen?.write(new Uint8Array(data, 1)); // behind the number of its stream
      return;
    }
    const told = JSON.parse(data) as Told;
    if (told.type === "started") {
      this.#screen?.begin();
      this.#typing?.open(told.window ?? 0);
      this.#say("open");
    } else if (told.type === "taken") this.#typing?.taken(told.bytes ?? 0);
    else this.#last = typeof told.code === "number" ? this.#word("ended").replace("%s", `${told.code}`) : (told.message ?? "");
  }

  #closed(event: CloseEvent): void {
    this.#screen?.end();
    const asked = event.code === 1005; // by our own hand
    const reason = event.code === 4401 ? this.#word("refused") : event.reason;
    const why = this.#last || (REFUSED.has(event.code) && reason) || this.#word(asked ? "closed" : "lost");
    this.#say("over", why);
    this.#socket = this.#typing = undefined;
  }

  #word(name: string): string {
    return this.#root.dataset[`word${name.charAt(0).toUpperCase()}${name.slice(1)}`] ?? "";
  }

  #say(state: "idle" | "connecting" | "open" | "over", words = this.#word(state)): void {
    this.#root.dataset["terminalState"] = state;
    part(this.#root, "said").textContent = words;
    const running = state === "connecting" || state === "open";
    const hadFocus = part(this.#root, "close") === document.activeElement || part(this.#root, "box").contains(document.activeElement);
    part(this.#root, "open").hidden = running;
    part(this.#root, "close").hidden = !running;
    if (state === "over" && hadFocus) part(this.#root, "open").focus();
  }
}
