/** `data-moment`: a time in the reader's own zone. `data-ticking`: how long since, counting on. `data-until`: how long
 * until then, counting down. */

import { language, units } from "../language.ts";

const today = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
const sameYear = new Intl.DateTimeFormat(language, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const other = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
const full = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
const SIZES = [86_400, 3_600, 60, 1];
const UNITS = SIZES.map((size, place): [string, number] => [units[place] ?? "", size]);

/** `75` seconds as `1 min 15 s`: the two largest units that are not nothing. */
export function spanWords(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const place = UNITS.findIndex(([, size]) => whole >= size);
  const unit = UNITS[place];
  if (!unit) return `0 ${units[3]}`;
  const next = UNITS[place + 1];
  const rest = next ? Math.floor((whole % unit[1]) / next[1]) : 0;
  return `${Math.floor(whole / unit[1])} ${unit[0]}${next && rest ? ` ${rest} ${next[0]}` : ""}`;
}

/** A point in time in the reader's own zone: as short as it can be told apart from now. */
export function momentWords(at: Date): string {
  const now = new Date();
  const near = at.toDateString() === now.toDateString();
  return (near ? today : at.getFullYear() === now.getFullYear() ? sameYear : other).format(at);
}

export function moment(element: HTMLElement): void {
  const at = new Date((element as HTMLTimeElement).dateTime);
  element.textContent = momentWords(at);
  element.title = full.format(at);
}

export function ticking(element: HTMLElement): void {
  element.textContent = spanWords((Date.now() - Number(element.dataset["ticking"])) / 1000);
}

export function until(element: HTMLElement): void {
  element.textContent = spanWords((Number(element.dataset["until"]) - Date.now()) / 1000);
}

/** Writes all times of the page: after each swap of a fragment, and the counting ones each second. */
export function writeTimes(): void {
  document.querySelectorAll<HTMLElement>("time[data-moment]").forEach(moment);
  count();
}

function count(): void {
  document.querySelectorAll<HTMLElement>("[data-ticking]").forEach(ticking);
  document.querySelectorAll<HTMLElement>("[data-until]").forEach(until);
}

export function keepTimes(): void {
  writeTimes();
  document.addEventListener("htmx:after:swap", writeTimes);
  setInterval(() => {
    if (!document.hidden) count();
  }, 1000);
}
