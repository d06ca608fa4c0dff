/**
 * `data-live="job:12 queue"`: this part of the page is fetched anew (by its `data-hx-get`) when one of these things
 * changes. `job` alone is any job. `data-live-poll="5"`: also every 5 s while the websocket is away, and now and then
 * while it is there, since a message may be lost; with `data-live-silent` at each tick, since no message tells of
 * what it shows.
 */

import htmx from "htmx.org";

import { connectionIs } from "./connection.ts";
import { ASK_MS, Socket } from "./socket.ts";
import { toast } from "./toasts.ts";

const REFRESH = "berth:refresh";
/** Changes that come together are shown together; `data-live-pause` is for parts that cost more. */
const PAUSE_MS = 400;
/** One in so many ticks asks even though the websocket is open. */
const SELDOM = 10;

export interface LiveEvent {
  kind: string;
  id?: number;
  name?: string;
}

/** Whether a part that listens to `names` must be fetched anew. */
export function concerns(names: string, event: LiveEvent): boolean {
  if (event.kind === "skipped") return true;
  const exact = `${event.kind}:${event.id ?? event.name ?? ""}`;
  return names.split(/\s+/).some((name) => name === event.kind || name === exact);
}

const waiting = new WeakMap<Element, number>();
const last = new WeakMap<Element, number>();
let socket: Socket | undefined;
let connected = false;

function parts(): NodeListOf<HTMLElement> {
  return document.querySelectorAll<HTMLElement>("[data-live]");
}

/** Changed while nobody looked. */
const stale = new Set<HTMLElement>();

function refresh(element: HTMLElement): void {
  if (waiting.has(element)) return;
  if (document.hidden) {
    stale.add(element);
    return;
  }
  const since = performance.now() - (last.get(element) ?? Number.NEGATIVE_INFINITY);
  const timer = window.setTimeout(() => {
    waiting.delete(element);
    last.set(element, performance.now());
    if (element.isConnected) htmx.trigger(element, REFRESH);
  }, Math.max(0, Number(element.dataset["livePause"] ?? PAUSE_MS) - since));
  waiting.set(element, timer);
}

function seenAgain(): void {
  if (document.hidden) return;
  stale.forEach(refresh);
  stale.clear();
}

let asking = 0;

/** Where no websocket gets through every part is fetched anew, again and again. */
function ask(again: boolean): void {
  clearInterval(asking);
  if (again) asking = window.setInterval(() => parts().forEach(refresh), ASK_MS);
}

function connect(): Socket {
  document.addEventListener("visibilitychange", seenAgain);
  const made: Socket = new Socket({
    address: () => "/ws/events",
    message: (data) => {
      for (const part of parts()) if (concerns(part.dataset["live"] ?? "", data as LiveEvent)) refresh(part);
    },
    state: (state, retryMs) => {
      connected = state === "open";
      ask(state === "blocked");
      connectionIs(state, retryMs, () => made.retry());
      // what happened while nobody listened, also between the making of the page and now
      if (connected) parts().forEach(refresh);
    },
  });
  return made;
}

/** `data-part-failed="words"`: says so when a part of the page that somebody asked for could not be had. Parts that
 * follow by themselves try again, and the banner speaks for them. */
export function partFailed(element: HTMLElement): void {
  const failed = (event: Event): void => {
    const { ctx, error } = (event as CustomEvent<{ ctx?: { sourceEvent?: Event }; error?: unknown }>).detail;
    if (error instanceof TypeError) socket?.doubt();
    if (ctx && ctx.sourceEvent?.type !== REFRESH) toast(element.dataset["partFailed"] ?? "", "error");
  };
  document.addEventListener("htmx:error", failed);
  document.addEventListener("htmx:response:error", failed);
}

export function live(element: HTMLElement): void {
  socket ??= connect();
  const seconds = Number(element.dataset["livePoll"] ?? 0);
  if (!seconds) return;
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
    if (!element.isConnected || !element.dataset["livePoll"]) clearInterval(timer);
    else if (!document.hidden && navigator.onLine && (!connected || "liveSilent" in element.dataset || ticks % SELDOM === 0)) refresh(element);
  }, seconds * 1000);
}
