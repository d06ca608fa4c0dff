const ASK_MS = 500;

/** `data-confirm="question"` on a button: asks before its form is sent. */
export function confirms(button: HTMLElement): void {
  button.addEventListener("click", (event) => {
    if (!window.confirm(button.dataset["confirm"])) event.preventDefault();
  });
}

/** `data-faults-here` at a field beside which the portal says what is wrong: of its form the portal judges all at once,
 * where the browser would stop at the first. What the browser cannot read as a number would be sent as nothing, so of
 * that it speaks itself; and a form with a password that must be there is left to it, as no answer brings that back. */
export function faultsHere(element: HTMLElement): void {
  const form = element.closest("form");
  if (form?.getAttribute("method")?.toLowerCase() !== "post" || form.noValidate) return;
  if (form.querySelector("input[type=password]:required")) return;
  form.noValidate = true;
  const unread = (event: Event): void => {
    const input = [...form.querySelectorAll("input")].find((one) => one.validity.badInput);
    if (!input) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    input.reportValidity();
  };
  form.addEventListener("submit", unread, { capture: true });
}

/** What a progress bar shows of an answer such as `{"done": 3, "total": 20}`; undefined where it says nothing. */
export function share(answer: unknown): number | undefined {
  const { done, total } = (answer ?? {}) as { done?: number; total?: number };
  return done !== undefined && total ? Math.min(1, done / total) : undefined;
}

/** `data-import="address"` on a form: while it is sent, asks that address how far it is, and shows it. */
export function importing(element: HTMLElement): void {
  const bar = element.querySelector<HTMLElement>("[data-import-progress]");
  const progress = bar?.querySelector("progress");
  element.addEventListener("submit", (event) => {
    if (!bar || !progress || (event as SubmitEvent).submitter?.getAttribute("name") !== "apply") return;
    bar.hidden = false;
    const ask = async (): Promise<void> => {
      try {
        const answer = await fetch(element.dataset["import"] as string, { headers: { accept: "application/json" } });
        const now = answer.ok ? share(await answer.json()) : undefined;
        if (now !== undefined) progress.value = now;
      } catch {
        // the next one asks again
      }
      window.setTimeout(() => void ask(), ASK_MS);
    };
    void ask();
  });
  // Back on a page that the browser kept, nothing is under way.
  window.addEventListener("pageshow", () => {
    if (bar) bar.hidden = true;
  });
}
