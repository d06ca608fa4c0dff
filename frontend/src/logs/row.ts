/** One line of the log as an element. Only text nodes carry what the job wrote. */

import { language } from "../language.ts";
import { MARK, STDERR, type Line, type TaskName } from "./lines.ts";

export interface RowLook {
  /** From 1; undefined when it is not known. */
  number: number | undefined;
  /** Lower case, empty for none. */
  search: string;
  /** The place to which the search has led. */
  current: boolean;
}

const clock = new Intl.DateTimeFormat(language, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});
/** The time of a line, in the reader's own zone. */
export function clockWords(ms: number): string {
  return day.format(new Date(ms));
}

const day = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });

export function rowElement(line: Line, look: RowLook): HTMLElement {
  const row = document.createElement("div");
  row.className = "log-row";
  if (line.stream === STDERR) row.classList.add("is-stderr");
  if (line.stream === MARK) row.classList.add("is-mark");
  if (line.provisional) row.classList.add("is-provisional");
  if (look.current) row.classList.add("is-current");
  row.append(numberElement(look.number), timeElement(line.time));
  if (line.task) row.append(taskElement(line.task));
  row.append(textElement(line, look.search));
  return row;
}

function numberElement(number: number | undefined): HTMLElement {
  const link = document.createElement("a");
  link.className = "log-number";
  if (number !== undefined) {
    link.href = `#L${number}`;
    link.textContent = String(number);
    link.tabIndex = -1;
  }
  return link;
}

export function taskElement(task: TaskName): HTMLElement {
  const name = document.createElement("span");
  name.className = `log-task is-task-${task.colour}`;
  name.textContent = name.title = task.name;
  return name;
}

function timeElement(ms: number): HTMLElement {
  const time = document.createElement("time");
  const at = new Date(ms);
  time.className = "log-time";
  time.dateTime = at.toISOString();
  time.title = day.format(at);
  time.textContent = clock.format(at);
  return time;
}

function textElement(line: Line, search: string): HTMLElement {
  const text = document.createElement("span");
  text.className = "log-text";
  for (const { text: words, style } of line.spans) {
    if (style.classes === "" && style.fg === "" && style.bg === "") {
      text.append(words);
      continue;
    }
    const span = document.createElement("span");
    span.className = style.classes;
    span.style.color = style.fg;
    span.style.backgroundColor = style.bg;
    span.textContent = words;
    text.append(span);
  }
  if (search) markAll(text, search);
  return text;
}

/** Wraps each place where `search` stands, also across spans. */
function markAll(text: HTMLElement, search: string): void {
  const whole = (text.textContent ?? "").toLowerCase();
  for (let at = whole.lastIndexOf(search); at >= 0; at = at ? whole.lastIndexOf(search, at - 1) : -1) {
    markPlace(text, at, at + search.length);
  }
}

function markPlace(text: HTMLElement, from: number, to: number): void {
  let at = 0;
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  const parts: [Text, number, number][] = [];
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    const end = at + node.data.length;
    if (end > from && at < to) parts.push([node, Math.max(0, from - at), Math.min(node.data.length, to - at)]);
    at = end;
  }
  for (const [node, start, end] of parts) {
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, end);
    range.surroundContents(document.createElement("mark"));
  }
}
