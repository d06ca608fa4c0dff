import htmx from "htmx.org";

import { ZOOM, zoomedTo } from "../charts/zoom.ts";

/** `data-charts`: what is chosen by dragging over one of its charts is read again in finer points, and the page's
 * address says it. */
export function charts(section: HTMLElement): void {
  section.addEventListener(ZOOM, (event) => {
    const span = (event as CustomEvent<[number, number] | null>).detail;
    const address = section.dataset["hxGet"] as string;
    const next = zoomedTo(address, span);
    if (next === address) return;
    section.dataset["hxGet"] = next;
    history.replaceState(history.state, "", zoomedTo(location.href, span));
    htmx.trigger(section, "berth:refresh");
  });
}

/** `data-refresh="10"`: this part of the page is fetched anew every so many seconds while somebody looks at it, as long
 * as it has the attribute. */
export function refreshes(element: HTMLElement): void {
  let next = performance.now() + seconds(element) * 1000;
  const timer = setInterval(() => {
    if (!element.isConnected || !element.dataset["refresh"]) {
      clearInterval(timer);
    } else if (!document.hidden && performance.now() >= next) {
      next = performance.now() + seconds(element) * 1000;
      htmx.trigger(element, "berth:refresh");
    }
  }, 1000);
}

function seconds(element: HTMLElement): number {
  return Number(element.dataset["refresh"]);
}
