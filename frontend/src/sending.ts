/** A form is sent only when the portal can be reached: else the page would be gone, and with it what was typed. */

import { toast } from "./toasts.ts";

const PATIENCE_MS = 5_000;

const asked = new WeakSet<HTMLFormElement>();
const reached = new WeakSet<HTMLFormElement>();

/** `data-sending="address"` with `data-word-unsent`: what is asked for to see whether the portal is there. */
export function sending(element: HTMLElement): void {
  const address = element.dataset["sending"] as string;
  const unsent = element.dataset["wordUnsent"] ?? "";
  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target as HTMLFormElement;
      if (form.getAttribute("method")?.toLowerCase() !== "post" || reached.delete(form)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (asked.has(form)) return;
      asked.add(form);
      void there(address).then((is) => {
        asked.delete(form);
        if (!is || !send(form, event.submitter)) toast(unsent, "error");
      });
    },
    { capture: true },
  );
}

async function there(address: string): Promise<boolean> {
  try {
    await fetch(address, { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return true;
  } catch {
    return false;
  }
}

/** False where the button is not there any more: the page has changed under it. */
function send(form: HTMLFormElement, submitter: HTMLElement | null): boolean {
  if (!form.isConnected || (submitter && !submitter.isConnected)) return false;
  reached.add(form);
  form.requestSubmit(submitter);
  return true;
}
