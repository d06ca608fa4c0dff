/**
 * `data-queue`: rows of the queue are dragged by their `data-grip` to another place among those that want GPUs as they do, and the
 * buttons that move them do so without the page being loaded anew. What became of it is told by the part that comes back.
 */

import htmx from "htmx.org";

import { dropAt, type Drop } from "../queue/drop.ts";

/** So near to the edge of the window the page scrolls along. */
const EDGE_PX = 56;

interface Drag {
  row: HTMLElement;
  rows: HTMLElement[];
  drop: Drop | undefined;
}

let drag: Drag | undefined;

export function queue(part: HTMLElement): void {
  part.addEventListener("submit", (event) => {
    const button = event.submitter as HTMLButtonElement | null;
    if (!button?.hasAttribute("formaction")) return;
    event.preventDefault();
    const { id } = button.closest("tr") as HTMLElement;
    void send(event.target as HTMLFormElement, button.formAction, button.value).then(() => keepFocus(id));
  });
  part.addEventListener("pointerdown", (event) => begin(part, event));
  part.addEventListener("pointermove", (event) => move(event));
  part.addEventListener("pointerup", () => end(true));
  part.addEventListener("pointercancel", () => end(false));
}

function begin(part: HTMLElement, event: PointerEvent): void {
  const grip = (event.target as Element).closest<HTMLElement>("[data-grip]");
  const row = grip?.closest<HTMLElement>("[data-place-group]");
  if (!grip || !row || event.button !== 0) return;
  event.preventDefault();
  grip.setPointerCapture(event.pointerId);
  const all = [...part.querySelectorAll<HTMLElement>("[data-place-group]")];
  const rows = all.filter((one) => one.dataset["placeGroup"] === row.dataset["placeGroup"] && meets(one, row));
  drag = { row, rows, drop: undefined };
  part.classList.add("is-dragging");
  rows.forEach((one) => one.classList.add("is-place"));
  row.classList.add("is-dragged");
}

/** Whether both want a kind of GPU that the other may have, or none. */
function meets(one: HTMLElement, other: HTMLElement): boolean {
  const kinds = (other.dataset["placeKinds"] ?? "").split(" ");
  return (one.dataset["placeKinds"] ?? "").split(" ").some((kind) => kinds.includes(kind));
}

function move(event: PointerEvent): void {
  if (!drag) return;
  if (event.clientY < EDGE_PX) scrollBy(0, -EDGE_PX / 4);
  if (event.clientY > innerHeight - EDGE_PX) scrollBy(0, EDGE_PX / 4);
  const spots = drag.rows.map((row) => {
    const { top, height } = row.getBoundingClientRect();
    return { job: row.dataset["placeJob"] as string, middle: top + height / 2 };
  });
  drag.drop = dropAt(spots, drag.row.dataset["placeJob"] as string, event.clientY);
  for (const row of drag.rows) {
    const here = row.dataset["placeJob"] === drag.drop?.job;
    row.classList.toggle("drop-before", here && drag.drop?.way === "before");
    row.classList.toggle("drop-after", here && drag.drop?.way === "after");
  }
}

function end(dropped: boolean): void {
  if (!drag) return;
  const { row, rows, drop } = drag;
  drag = undefined;
  const part = row.closest("[data-queue]");
  part?.classList.remove("is-dragging");
  for (const one of rows) one.classList.remove("is-place", "is-dragged", "drop-before", "drop-after");
  const form = document.getElementById(row.dataset["placeGroup"] as string);
  if (dropped && drop && form instanceof HTMLFormElement) {
    void send(form, row.dataset["placeAddress"] as string, `${drop.way}:${drop.job}`);
  } else if (part) {
    htmx.trigger(part, "berth:refresh"); // what came meanwhile was not shown
  }
}

function send(form: HTMLFormElement, address: string, to: string): Promise<unknown> {
  const values = { ...Object.fromEntries(new FormData(form)), to };
  return htmx.ajax("POST", address, { target: "#queue", swap: "outerMorph", values }) as Promise<unknown>;
}

/** A button that has nowhere further to go loses the focus: its row gets it, from which the next key goes on. */
function keepFocus(id: string): void {
  const focused = document.activeElement;
  if (focused !== document.body && !focused?.matches(":disabled")) return;
  const row = document.getElementById(id);
  if (!row) return;
  row.tabIndex = -1;
  row.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") end(false);
});

// Rows stay where they are while one of them is held.
document.addEventListener("htmx:before:swap", (event) => {
  if (drag) event.preventDefault();
});
