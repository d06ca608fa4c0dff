/** The named parts of a log's markup, and what this browser remembers. */

export function part<T extends HTMLElement>(root: HTMLElement, name: string): T {
  const found = root.querySelector<T>(`[data-log-${name}]`);
  if (!found) throw new Error(`the log viewer has no part ${name}`);
  return found;
}

export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage may be forbidden
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // not remembered
  }
}

/** Calls `gone` once the element has left the page: a fragment was swapped. */
export function whenGone(element: HTMLElement, gone: () => void): void {
  const look = (): void => {
    if (element.isConnected) return;
    document.removeEventListener("htmx:after:swap", look);
    gone();
  };
  document.addEventListener("htmx:after:swap", look);
}
