/** The lines of several logs as one, ordered by time. */

import { MAX_LINES } from "./buffer.ts";
import { found, LineAssembler, lostRecord, mend, type Line, type LogRecord, type TaskName } from "./lines.ts";
import type { EarlierPart } from "./merged_feed.ts";

/** Names get so many colours, again and again. */
export const COLOURS = 8;
const STEP = 50_000;

/** One of the logs: how far back it is held, and its line that still grows. */
class Source {
  readonly task: TaskName;
  /** The log's offset of the first record held; undefined before the first one. */
  start: number | undefined;
  /** Time of the first record held. */
  first = Number.NEGATIVE_INFINITY;
  lines: LineAssembler | undefined;
  /** Whether what comes is new, and no more of the part with which the log opened. */
  live = false;
  #latest = Number.NEGATIVE_INFINITY;

  constructor(task: TaskName) {
    this.task = task;
  }

  /** A clock that was set back does not put a line before the one that its task wrote earlier. */
  orderOf(time: number): number {
    this.#latest = Math.max(this.#latest, time);
    return this.#latest;
  }
}

export class MergedBuffer {
  lines: Line[] = [];
  readonly before = undefined;
  changedFrom = Number.POSITIVE_INFINITY;
  /** Lines were dropped: nothing earlier can be put before what is held. */
  dropped = 0;
  readonly #sources = new Map<string, Source>();
  /** Older than what is held of some other log: shown when that one is read further back. */
  #held: Line[] = [];
  #since = Number.NEGATIVE_INFINITY;

  /** A log is one of those shown. */
  add(log: string, name: string): void {
    if (!this.#sources.has(log)) {
      this.#sources.set(log, new Source({ name, colour: this.#sources.size % COLOURS }));
    }
  }

  /** What comes of this log from now on is new: it is shown, also where its server's clock is so far behind that it
   * would stand before everything that is. */
  live(log: string): void {
    const source = this.#sources.get(log);
    if (source) source.live = true;
  }

  /** Records at the end of one log; `from` is the offset of the first. */
  append(log: string, records: readonly LogRecord[], from: number): void {
    const source = this.#sources.get(log);
    const [first] = records;
    if (!source || !first) return;
    if (source.start === undefined) {
      source.start = from;
      source.first = first[0];
      if (from > 0) this.#raise(source.first);
    }
    const lines = this.#linesOf(source, from > 0);
    for (const record of records) lines.push(record);
    this.#put(this.#fresh);
  }

  /** What there is of one log's lines without an end, in place of what there was. */
  tail(log: string, records: readonly LogRecord[]): void {
    const source = this.#sources.get(log);
    if (!source) return;
    this.#linesOf(source, false).tail(records);
    this.#put(this.#fresh);
  }

  /** What puts a log's lines together; those that it begins now are the fresh ones. */
  #linesOf(source: Source, torn: boolean): LineAssembler {
    this.#fresh = [];
    return (source.lines ??= new LineAssembler((line) => this.#begun(source, line), torn));
  }

  #fresh: Line[] = [];

  #begun(source: Source, line: Line): void {
    line.task = source.task;
    line.order = source.orderOf(source.live ? Math.max(line.time, this.#since) : line.time);
    this.#fresh.push(line);
  }

  /** Puts what stands before what is held of these logs in front; how many lines more are shown. */
  prepend(parts: readonly EarlierPart[]): number {
    if (this.dropped) return 0;
    const earlier = parts.flatMap((part) => this.#earlier(part));
    const since = this.#oldest();
    // what was read back is older than what is held of its log, also where the clock says the same of both
    const older = byOrder([...earlier, ...this.#held]);
    const place = firstFrom(older, since);
    this.#held = older.slice(0, place);
    this.#since = since;
    const shown = older.slice(place);
    this.lines = shown.concat(this.lines);
    this.changedFrom = 0;
    return shown.length;
  }

  #earlier({ log, from, to, records: read }: EarlierPart): Line[] {
    const source = this.#sources.get(log);
    if (!source || source.start === undefined || from >= source.start) return [];
    const records = to < source.start ? [...read, lostRecord(source.first, source.start - to)] : read;
    const [first] = records;
    if (!first) return [];
    const lines: Line[] = [];
    const assembler = new LineAssembler((line) => lines.push(line), from > 0);
    for (const record of records) assembler.push(record);
    this.#linesOf(source, false).withoutTail(() => mend(lines, (stream) => {
      const own = (line: Line): boolean => line.task === source.task && line.stream === stream;
      return this.#held.find(own) ?? this.lines.find(own);
    }));
    let order = Number.NEGATIVE_INFINITY;
    for (const line of lines) {
      line.task = source.task;
      line.order = order = Math.max(order, line.time);
    }
    source.start = from;
    source.first = first[0];
    return lines;
  }

  /** What to ask for to see more: of each log that is not held from its beginning the offset before which. */
  get reach(): Record<string, number> {
    const offsets: Record<string, number> = {};
    for (const [log, { start }] of this.#sources) if (start && !this.dropped) offsets[log] = start;
    return offsets;
  }

  /** Drops the oldest lines beyond the limit and says how many. */
  trim(limit = MAX_LINES, step = STEP): number {
    if (this.lines.length <= limit + step) return 0;
    const count = this.lines.length - limit;
    this.lines = this.lines.slice(count);
    this.#held = [];
    this.#since = this.lines[0]?.order ?? this.#since;
    this.dropped += count;
    return count;
  }

  search(text: string): number[] {
    return found(this.lines, text);
  }

  /** From when on every log is held. */
  #oldest(): number {
    let since = Number.NEGATIVE_INFINITY;
    for (const { start, first } of this.#sources.values()) if (start) since = Math.max(since, first);
    return since;
  }

  /** One more log is held from this time on only: what is older waits. */
  #raise(since: number): void {
    if (since <= this.#since) return;
    this.#since = since;
    const place = firstFrom(this.lines, since);
    if (place === 0) return;
    this.#held = byOrder([...this.#held, ...this.lines.slice(0, place)]);
    this.lines = this.lines.slice(place);
    this.changedFrom = 0;
  }

  /** Puts new lines where their time is: near the end, as a rule. */
  #put(fresh: Line[]): void {
    const shown = fresh.filter((line) => (line.order as number) >= this.#since);
    if (shown.length < fresh.length && !this.dropped) {
      this.#held = byOrder([...this.#held, ...fresh.filter((line) => (line.order as number) < this.#since)]);
    }
    const [first] = shown;
    if (!first) return;
    const place = firstAfter(this.lines, first.order as number);
    const tail = byOrder([...this.lines.slice(place), ...shown]);
    this.lines.length = place;
    for (const line of tail) this.lines.push(line);
    this.changedFrom = Math.min(this.changedFrom, place);
  }
}

/** Stable: lines of one time keep the order in which they came. */
function byOrder(lines: Line[]): Line[] {
  return lines.sort((one, two) => (one.order as number) - (two.order as number));
}

/** The first place whose line is not older. */
function firstFrom(lines: readonly Line[], order: number): number {
  return placeWhere(lines, (line) => (line.order as number) >= order);
}

/** The first place whose line is newer. */
function firstAfter(lines: readonly Line[], order: number): number {
  return placeWhere(lines, (line) => (line.order as number) > order);
}

function placeWhere(lines: readonly Line[], holds: (line: Line) => boolean): number {
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(lines[middle] as Line)) high = middle;
    else low = middle + 1;
  }
  return low;
}
