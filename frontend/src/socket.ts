/** A websocket that comes back by itself, waiting longer each time (up to 10 s, with chance in it). Without a network it
 * does not try: it comes back with it. */

/** `blocked`: the server answers, and nothing lets a websocket through to it. */
export type SocketState = "connecting" | "open" | "waiting" | "crowded" | "refused" | "blocked";

export interface SocketHandlers {
  /** The address to connect to now: asked again at each try, since an offset in it moves on. */
  address: () => string;
  message: (data: unknown) => void;
  /** `retryMs`: how long until the next try, when `state` is "waiting" or "crowded": this user has too many open. */
  state: (state: SocketState, retryMs: number) => void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;
/** The server closed for good: not signed in (any more), not allowed, or no such thing. */
const REFUSED = new Set([4401, 4403, 4404]);
const TOO_MANY = 4429;
const CROWDED_MS = 30_000;
/** So many first tries in vain make it ask whether the server is there. */
const BLOCKED_AFTER = 3;
const BLOCKED_MS = 30_000;
/** How often is asked for what a websocket would tell, where none gets through. */
export const ASK_MS = 3_000;

export class Socket {
  readonly #handlers: SocketHandlers;
  #socket: WebSocket | undefined;
  #timer = 0;
  #tries = 0;
  #closed = false;
  #opened = false;
  #blocked = false;

  constructor(handlers: SocketHandlers) {
    this.#handlers = handlers;
    this.#connect();
    addEventListener("online", this.#now);
    addEventListener("offline", this.doubt);
    document.addEventListener("visibilitychange", this.#now);
  }

  send(data: unknown): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(data));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    removeEventListener("online", this.#now);
    removeEventListener("offline", this.doubt);
    document.removeEventListener("visibilitychange", this.#now);
    this.#socket?.close();
  }

  /** Try at once instead of waiting. */
  readonly retry = (): void => {
    if (this.#timer === 0) return;
    clearTimeout(this.#timer);
    this.#connect();
  };

  /** Something else could not reach the server. A connection may stand for minutes though nothing passes: have a new
   * one. */
  readonly doubt = (): void => {
    const doubted = this.#socket;
    if (doubted?.readyState !== WebSocket.OPEN) return;
    this.#socket = undefined;
    doubted.close();
    this.#lost(0);
  };

  /** Somebody looks again, or the network is back. */
  readonly #now = (): void => {
    if (!document.hidden) this.retry();
  };

  #connect(): void {
    this.#timer = 0;
    if (!navigator.onLine) {
      this.#lost(0);
      return;
    }
    if (!this.#blocked) this.#handlers.state("connecting", 0);
    const url = new URL(this.#handlers.address(), location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#tries = 0;
      this.#opened = true;
      this.#blocked = false;
      this.#handlers.state("open", 0);
    });
    socket.addEventListener("message", (event: MessageEvent<string>) => {
      if (this.#socket === socket) this.#handlers.message(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => {
      if (this.#socket === socket) this.#lost(event.code);
    });
  }

  #lost(code: number): void {
    if (this.#closed) return;
    if (REFUSED.has(code)) {
      this.#handlers.state("refused", 0);
      return;
    }
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#tries) * (0.5 + Math.random() / 2);
    this.#tries += 1;
    if (code === TOO_MANY) this.#later("crowded", CROWDED_MS);
    else if (this.#opened || this.#tries < BLOCKED_AFTER) this.#later("waiting", wait);
    else void this.#whyNot(wait);
  }

  /** No try has ever led to a connection. */
  async #whyNot(wait: number): Promise<void> {
    this.#blocked = await fetch("/healthz").then(({ ok }) => ok, () => false);
    if (this.#closed) return;
    if (this.#blocked) this.#later("blocked", BLOCKED_MS);
    else this.#later("waiting", wait);
  }

  #later(state: "waiting" | "crowded" | "blocked", wait: number): void {
    this.#handlers.state(state, wait);
    this.#timer = window.setTimeout(() => this.#connect(), wait);
  }
}
