/** `data-menu` on `details`: closes when one looks elsewhere. */
export function menu(element: HTMLElement): void {
  const details = element as HTMLDetailsElement;
  document.addEventListener("click", (event) => {
    if (!details.contains(event.target as Node)) details.open = false;
  });
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    details.open = false;
    details.querySelector("summary")?.focus();
  });
}

/** `data-copy="id"`: copies the text of that element. */
export function copy(button: HTMLElement): void {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset["copy"] as string);
    await navigator.clipboard.writeText(source?.textContent ?? "");
    button.classList.add("is-done");
    setTimeout(() => button.classList.remove("is-done"), 1500);
  });
}

/** `data-auto-submit` on a form: a changed choice is applied at once. Words wait for Enter, and what is inside
 * `data-waits` for its button. */
export function autoSubmit(element: HTMLElement): void {
  const form = element as HTMLFormElement;
  form.addEventListener("change", (event) => {
    const input = event.target as HTMLInputElement;
    if (input.closest("[data-waits]")) return;
    if (input.tagName === "SELECT" || input.type === "checkbox") form.requestSubmit();
  });
}

/** `data-opens="id"`: opens that dialog. Without script the link leads to a page that asks the same. */
export function opens(button: HTMLElement): void {
  button.addEventListener("click", (event) => {
    const dialog = document.getElementById(button.dataset["opens"] as string);
    if (!(dialog instanceof HTMLDialogElement)) return;
    event.preventDefault();
    dialog.showModal();
  });
}

/** `data-closes`: closes the dialog that it stands in. */
export function closes(button: HTMLElement): void {
  button.addEventListener("click", () => button.closest("dialog")?.close());
}

/** `data-shortcuts` on a dialog: the question mark opens it, where nothing is being typed. */
export function shortcuts(element: HTMLElement): void {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "?" || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if ((event.target as HTMLElement).closest("input, textarea, select, [contenteditable], .terminal")) return;
    event.preventDefault();
    (element as HTMLDialogElement).showModal();
  });
}
