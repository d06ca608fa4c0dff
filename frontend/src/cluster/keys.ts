/** The map by keyboard: one tab stop, arrows go from GPU to GPU and from node to node, N opens the node. */

const CELL = ".dot-gpu, .map-name";

export function keys(box: HTMLElement): void {
  box.addEventListener("keydown", (event) => {
    const from = (event.target as Element).closest<HTMLElement>(CELL);
    if (!from || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") {
      from.closest(".map-node")?.querySelector<HTMLElement>(".map-name")?.click();
      return;
    }
    const to = target(box, from, event.key);
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
  box.addEventListener("focusin", (event) => {
    const now = event.target as HTMLElement;
    if (!now.matches(CELL)) return;
    for (const one of box.querySelectorAll<HTMLElement>('[tabindex="0"]')) one.tabIndex = -1;
    now.tabIndex = 0;
  });
}

function target(box: HTMLElement, from: HTMLElement, key: string): HTMLElement | undefined {
  const all = [...box.querySelectorAll<HTMLElement>(CELL)];
  const place = all.indexOf(from);
  if (key === "ArrowRight") return all[place + 1];
  if (key === "ArrowLeft") return all[place - 1];
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (key === "ArrowDown") return nearest(all, from, 1);
  if (key === "ArrowUp") return nearest(all, from, -1);
  return undefined;
}

/** The one above or below that is nearest in its line. */
function nearest(all: HTMLElement[], from: HTMLElement, way: 1 | -1): HTMLElement | undefined {
  const kind = from.matches(".map-name") ? ".map-name" : ".dot-gpu";
  const here = from.getBoundingClientRect();
  let best: HTMLElement | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const one of all) {
    if (!one.matches(kind)) continue;
    const there = one.getBoundingClientRect();
    const down = (there.top - here.top) * way;
    if (down < here.height / 2) continue;
    const far = down * 10_000 + Math.abs(there.left - here.left);
    if (far < least) [best, least] = [one, far];
  }
  return best;
}
