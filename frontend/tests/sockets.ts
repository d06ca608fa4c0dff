import { vi } from "vitest";

/** A browser whose websockets never get through; its time is the test's. */
export function withoutSockets(): void {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("location", { href: "http://portal/" });
  vi.stubGlobal("navigator", { onLine: true });
  vi.stubGlobal("document", Object.assign(new EventTarget(), { hidden: false }));
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("removeEventListener", () => undefined);
  vi.stubGlobal("WebSocket", class extends EventTarget {
    constructor() {
      super();
      setTimeout(() => this.dispatchEvent(Object.assign(new Event("close"), { code: 1006 })));
    }
    close(): void {}
  });
}
