import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { BACK_MS, Connection, GRACE_MS, type Shown } from "../src/connection.ts";
import { Socket, type SocketState } from "../src/socket.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("the banner", () => {
  const shown: Shown[] = [];
  const banner = (): Connection => {
    shown.length = 0;
    return new Connection((now) => shown.push(now));
  };

  test("a connection that is there again at once was not lost", () => {
    const heard = banner();
    heard.take("waiting");
    vi.advanceTimersByTime(GRACE_MS - 1);
    heard.take("open");
    vi.advanceTimersByTime(BACK_MS);
    expect(shown).toEqual([]);
  });

  test("says that it is lost, stays while it is tried again, says that it is back, and goes", () => {
    const heard = banner();
    heard.take("waiting");
    vi.advanceTimersByTime(GRACE_MS);
    for (const state of ["connecting", "waiting", "connecting", "waiting"] as const) heard.take(state);
    vi.advanceTimersByTime(60_000);
    expect(shown).toEqual(["lost"]);
    heard.take("open");
    expect(shown).toEqual(["lost", "back"]);
    vi.advanceTimersByTime(BACK_MS);
    expect(shown).toEqual(["lost", "back", "well"]);
  });

  test("lost again while it says that it is back, it says so", () => {
    const heard = banner();
    heard.take("waiting");
    vi.advanceTimersByTime(GRACE_MS);
    heard.take("open");
    heard.take("waiting");
    vi.advanceTimersByTime(BACK_MS);
    expect(shown.at(-1)).toBe("lost");
  });

  test("where no websocket gets through it says so, until one does", () => {
    const heard = banner();
    heard.take("blocked");
    heard.take("open");
    expect(shown).toEqual(["blocked", "well"]);
  });

  test("a session that has ended is no lost connection", () => {
    const heard = banner();
    heard.take("refused");
    vi.advanceTimersByTime(BACK_MS);
    expect(shown).toEqual(["ended"]);
  });
});

describe("a websocket", () => {
  class Wire extends EventTarget {
    static readonly OPEN = 1;
    static made: Wire[] = [];
    readyState = 0;
    constructor(_url: URL) {
      super();
      Wire.made.push(this);
    }
    open(): void {
      this.readyState = 1;
      this.dispatchEvent(new Event("open"));
    }
    close(): void {
      this.readyState = 2;
    }
  }

  const states: SocketState[] = [];
  const network = { onLine: true };
  let page: EventTarget;

  const socket = (): Socket => {
    page = new EventTarget();
    states.length = Wire.made.length = 0;
    network.onLine = true;
    vi.stubGlobal("WebSocket", Wire);
    vi.stubGlobal("navigator", network);
    vi.stubGlobal("location", { href: "http://portal/" });
    vi.stubGlobal("window", globalThis);
    vi.stubGlobal("document", Object.assign(new EventTarget(), { hidden: false }));
    vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
    vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
    return new Socket({ address: () => "/ws/events", message: () => undefined, state: (state) => states.push(state) });
  };

  test("a network that goes ends a connection that still seems open, and it comes back with the network", () => {
    socket();
    Wire.made[0]?.open();
    network.onLine = false;
    page.dispatchEvent(new Event("offline"));
    vi.advanceTimersByTime(60_000);
    expect(new Set(states.slice(2))).toEqual(new Set(["waiting"]));
    expect(Wire.made).toHaveLength(1); // nothing was tried without a network
    network.onLine = true;
    page.dispatchEvent(new Event("online"));
    Wire.made[1]?.open();
    expect(states.at(-1)).toBe("open");
  });

  test("it waits longer after each failure, and is tried at once when somebody asks", () => {
    const tried = socket();
    Wire.made[0]?.open();
    for (let failures = 0; failures < 8; failures += 1) {
      Wire.made.at(-1)?.dispatchEvent(Object.assign(new Event("close"), { code: 1006 }));
      vi.advanceTimersByTime(10_000);
    }
    expect(Wire.made).toHaveLength(9);
    Wire.made.at(-1)?.dispatchEvent(Object.assign(new Event("close"), { code: 1006 }));
    vi.advanceTimersByTime(4_000);
    expect(Wire.made).toHaveLength(9); // more than half of the longest wait
    tried.retry();
    expect(Wire.made).toHaveLength(10);
  });

  test("where the server answers and no websocket gets through it is blocked, which is tried again now and then", async () => {
    const server = { ok: true };
    socket();
    vi.stubGlobal("fetch", () => Promise.resolve(server));
    const fail = async (): Promise<void> => {
      Wire.made.at(-1)?.dispatchEvent(Object.assign(new Event("close"), { code: 1006 }));
      await vi.advanceTimersByTimeAsync(0);
    };
    for (let tries = 0; tries < 3; tries += 1) {
      await fail();
      await vi.advanceTimersByTimeAsync(tries < 2 ? 1_000 : 0);
    }
    expect(states.at(-1)).toBe("blocked");
    await vi.advanceTimersByTimeAsync(30_000);
    await fail();
    expect(states.slice(-2)).toEqual(["blocked", "blocked"]);
    server.ok = false;
    await vi.advanceTimersByTimeAsync(30_000);
    await fail();
    expect(states.at(-1)).toBe("waiting");
    await vi.advanceTimersByTimeAsync(10_000);
    Wire.made.at(-1)?.open();
    expect(states.at(-1)).toBe("open");
  });

  test("a connection that is doubted is made anew; what the old one still says counts no more", () => {
    const doubted = socket();
    Wire.made[0]?.open();
    doubted.doubt();
    Wire.made[0]?.dispatchEvent(Object.assign(new Event("close"), { code: 4401 }));
    vi.advanceTimersByTime(1_000);
    Wire.made[1]?.open();
    expect(states).toEqual(["connecting", "open", "waiting", "connecting", "open"]);
  });
});
