/**
 * `data-tasks`: the list of a job's tasks. `data-task-filter` in it narrows the list; arrow keys go through it; a log
 * (`data-task-log`) opens without the page being loaded anew; `[` and `]` go to the log before and after.
 */

import htmx from "htmx.org";

const EDITABLE = "input, textarea, select, [contenteditable]";
/** As high as what says of a log whose it is. */
const HEADER_PX = 120;

export function tasks(form: HTMLElement): void {
  const filter = form.querySelector<HTMLInputElement>("[data-task-filter]");
  const apply = (): void => {
    if (filter) narrow(form, filter.value);
    offer(form);
  };
  filter?.addEventListener("input", apply);
  form.addEventListener("change", () => offer(form));
  form.addEventListener("keydown", (event) => move(form, event));
  form.addEventListener("click", open);
  document.addEventListener("htmx:after:swap", () => form.isConnected && apply());
  document.addEventListener("keydown", (event) => {
    if (form.isConnected) step(form, event);
  });
  apply();
}

/** Leaves the tasks whose words contain all words of `text`; groups without any are hidden, the others opened. */
function narrow(form: HTMLElement, text: string): void {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of form.querySelectorAll<HTMLElement>(".task-list > li")) {
    const said = (item.textContent ?? "").toLowerCase();
    item.hidden = !words.every((word) => said.includes(word));
    shown += item.hidden ? 0 : 1;
  }
  for (const group of form.querySelectorAll<HTMLDetailsElement>(".task-group")) {
    const some = group.querySelector("li:not([hidden])") !== null;
    group.hidden = !some;
    if (words.length > 0 && some) group.open = true;
  }
  const none = form.querySelector<HTMLElement>("[data-task-none]");
  if (none) none.hidden = shown > 0 || words.length === 0;
}

/** The button that shows the ticked logs together waits for two ticks. */
function offer(form: HTMLElement): void {
  const button = form.querySelector<HTMLButtonElement>("[data-task-together]");
  if (button) button.disabled = form.querySelectorAll("input[name=log]:checked").length < 2;
}

function links(form: HTMLElement): HTMLAnchorElement[] {
  const all = form.querySelectorAll<HTMLAnchorElement>(".task-list > li:not([hidden]) > a");
  return [...all].filter((link) => link.offsetParent !== null);
}

function move(form: HTMLElement, event: KeyboardEvent): void {
  if (event.key === "Enter" && (event.target as HTMLElement).matches("[data-task-filter]")) {
    event.preventDefault();
    links(form)[0]?.click();
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const all = links(form);
  const at = all.indexOf(document.activeElement as HTMLAnchorElement);
  const next = event.key === "ArrowDown" ? all[at + 1] : all[at - 1];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function step(form: HTMLElement, event: KeyboardEvent): void {
  if (event.key !== "[" && event.key !== "]") return;
  if (event.ctrlKey || event.metaKey || (event.target as HTMLElement).closest(EDITABLE)) return;
  const all = links(form);
  const at = all.findIndex((link) => link.hasAttribute("aria-current"));
  const next = event.key === "]" ? all[at + 1] : all[at - 1];
  if (!next) return;
  next.scrollIntoView({ block: "nearest" });
  next.click();
}

/** Shows another log in place; the address says which, so that it can be shared and gone back from. */
function open(event: MouseEvent): void {
  const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-task-log]");
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = link.href.replace(/#.*$/, "");
  history.pushState(null, "", address);
  void show(address).then(showLog);
}

/** Where the log stands below the tasks, as on a phone, what was chosen is gone to. */
function showLog(): void {
  const log = document.getElementById("log");
  if (log && log.getBoundingClientRect().top > innerHeight - HEADER_PX) log.scrollIntoView({ block: "start" });
}

/** How often another log was chosen, and how often when each request was sent. */
let choices = 0;
const sent = new WeakMap<object, number>();

/** The page also follows by itself: from now on as this address has it, and what it asked for before is not shown any
 * more, lest a late answer bring the log back from which one went. */
function show(address: string): Promise<unknown> {
  choices += 1;
  const job = document.getElementById("job");
  if (job) job.dataset["hxGet"] = address;
  return htmx.ajax("GET", address, { target: "#job", swap: "outerMorph" }) as Promise<unknown>;
}

addEventListener("popstate", () => {
  if (document.querySelector("[data-tasks]")) void show(location.href.replace(/#.*$/, ""));
});

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  sent.set(ctx, choices);
  const now = ctx.sourceElement.id === "job" ? ctx.sourceElement.getAttribute("data-hx-get") : null;
  if (now && choices > 0) ctx.request.action = now; // it may have waited for its turn since before the choice
});
document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (ctx.sourceElement.id === "job" && (sent.get(ctx) ?? choices) < choices) event.preventDefault();
});
