/** What became of an action, in one place on every page: messages that came with the page, and those of scripts. */

export type Level = "success" | "info" | "warning" | "error";

/** Good news goes by itself, unless somebody points at it or is in it; what went wrong stays until it is closed. */
const STAYS_MS = 10_000;
/** A live region tells of what comes into it once it is there. */
const ANNOUNCED_AFTER_MS = 100;

let region: HTMLElement | undefined;

/** `data-toasts`: where they stand. `data-word-close` names the button. */
export function toasts(element: HTMLElement): void {
  region = element;
  const came = [...element.children] as HTMLElement[];
  if (!came.length) return;
  element.replaceChildren();
  setTimeout(() => came.forEach(show), ANNOUNCED_AFTER_MS);
}

export function toast(words: string, level: Level): void {
  const note = document.createElement("div");
  note.className = `toast-note is-${level}`;
  if (level === "error") note.setAttribute("role", "alert");
  const text = document.createElement("span");
  text.className = "toast-words";
  text.textContent = words;
  note.append(text);
  show(note);
}

/** `data-told` on a note in a part that is fetched anew: it goes to the others, where the next refreshing leaves it. */
export function told(note: HTMLElement): void {
  const level = (["success", "warning", "error"] as const).find((one) => note.classList.contains(`is-${one}`));
  toast(note.textContent ?? "", level ?? "info");
  note.remove();
}

/** Whether a message of this kind goes away by itself. */
export function goes(style: string): boolean {
  return !/\bis-(warning|error)\b/.test(style);
}

function show(note: HTMLElement): void {
  if (!region) return;
  const same = [...region.children].find((other) => other.textContent?.startsWith(note.textContent ?? ""));
  same?.remove();
  note.append(closer(note, region.dataset["wordClose"] ?? ""));
  region.append(note);
  if (goes(note.className)) leaveLater(note);
}

function closer(note: HTMLElement, word: string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "icon-button";
  button.setAttribute("aria-label", word);
  const cross = document.createElement("span");
  cross.ariaHidden = "true";
  cross.textContent = "×";
  button.append(cross);
  button.addEventListener("click", () => note.remove());
  return button;
}

function leaveLater(note: HTMLElement): void {
  setTimeout(() => {
    if (note.matches(":hover, :focus-within") || document.hidden) leaveLater(note);
    else note.remove();
  }, STAYS_MS);
}
