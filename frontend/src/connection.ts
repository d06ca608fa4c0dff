/** `data-connection`: the banner that says when the portal cannot be reached, when it is tried again, and when it is
 * back. */

import type { SocketState } from "./socket.ts";

/** `crowded`: this user has too many live views open, so that this page asks now and then; `blocked`: no websocket gets
 * through, so that it asks again and again. */
export type Shown = "well" | "lost" | "crowded" | "blocked" | "ended" | "back";

/** A connection that is there again this soon was not lost: a server that starts anew, a page that is left. */
export const GRACE_MS = 400;
export const BACK_MS = 5_000;

/** What the banner shows, from what is heard of the connection. */
export class Connection {
  shown: Shown = "well";
  readonly #show: (shown: Shown) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(show: (shown: Shown) => void) {
    this.#show = show;
  }

  take(state: SocketState): void {
    if (state === "open") this.#open();
    else if (state === "refused") this.#become("ended");
    else if (state === "crowded" || state === "blocked") this.#become(state);
    else if (state === "waiting" && this.shown === "back") this.#become("lost");
    else if (state === "waiting" && this.shown !== "lost") this.#timer ??= setTimeout(() => this.#become("lost"), GRACE_MS);
  }

  #open(): void {
    this.#stop();
    if (this.shown === "well") return;
    if (this.shown === "crowded" || this.shown === "blocked") {
      this.#become("well");
      return;
    }
    this.#become("back");
    this.#timer = setTimeout(() => this.#become("well"), BACK_MS);
  }

  #become(shown: Shown): void {
    this.#stop();
    this.shown = shown;
    this.#show(shown);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

let heard: Connection | undefined;
let retryAt = 0;
let tryNow: (() => void) | undefined;
let countdown = 0;

/** What a websocket says of the connection; `again`: tries at once. */
export function connectionIs(state: SocketState, retryMs: number, again: () => void): void {
  tryNow = again;
  retryAt = performance.now() + retryMs;
  heard?.take(state);
}

export function connection(banner: HTMLElement): void {
  const words = banner.querySelector<HTMLElement>("[data-connection-words]") as HTMLElement;
  const next = banner.querySelector<HTMLElement>("[data-connection-next]") as HTMLElement;
  const button = banner.querySelector<HTMLElement>("[data-connection-again]") as HTMLElement;
  const link = banner.querySelector<HTMLElement>("[data-connection-login]") as HTMLElement;
  heard = new Connection((shown) => {
    banner.dataset["state"] = shown;
    document.documentElement.classList.toggle("is-offline", shown === "lost" || shown === "ended");
    const word = shown === "back" && !tryNow ? "there" : shown; // nothing of this page follows by itself
    words.textContent = banner.dataset[`word${word.charAt(0).toUpperCase()}${word.slice(1)}`] ?? "";
    button.hidden = shown !== "lost";
    link.hidden = shown !== "ended";
    clearInterval(countdown);
    next.textContent = "";
    if (shown === "lost") countdown = window.setInterval(() => count(next, banner.dataset["wordNext"] ?? ""), 500);
  });
  button.addEventListener("click", () => (tryNow ?? (() => location.reload()))());
  // A page without anything live has no websocket: the browser knows whether there is a network.
  addEventListener("offline", () => heard?.take("waiting"));
  addEventListener("online", () => {
    if (!tryNow) heard?.take("open");
  });
}

function count(next: HTMLElement, words: string): void {
  const seconds = Math.ceil((retryAt - performance.now()) / 1000);
  next.textContent = seconds > 0 ? words.replace("%s", `${seconds}`) : "";
}
