/** The lines of a log that the browser holds: a stretch of it that grows at both ends, within a limit. */

import { found, LineAssembler, mend, type Line, type LogRecord } from "./lines.ts";

export const MAX_LINES = 300_000;
/** Dropping in large steps keeps the cost per line constant. */
const STEP = 50_000;

export class LogBuffer {
  lines: Line[] = [];
  changedFrom = Number.POSITIVE_INFINITY;
  /** The log's offset of the first line held; undefined once lines were dropped in the middle of a message. */
  start: number | undefined;
  /** The log's offset behind the last record held. */
  end: number;
  /** How many lines stand before the first one held; undefined when nobody has counted them. */
  before: number | undefined;
  dropped = 0;
  /** Offsets at which no line was cut, each with the number of lines that stood before it. */
  #marks: [offset: number, lines: number][] = [];
  readonly #live: LineAssembler;

  constructor(start: number) {
    this.start = this.end = start;
    this.before = start === 0 ? 0 : undefined;
    this.#live = new LineAssembler((line) => this.lines.push(line), start > 0);
  }

  /** Records that end at the log's offset `to`. */
  append(records: readonly LogRecord[], to: number): void {
    for (const record of records) this.#live.push(record);
    this.end = to;
    if (!this.#live.unfinished) this.#marks.push([to, this.lines.length]);
  }

  /** What there is of lines without an end, in place of what there was. */
  tail(records: readonly LogRecord[]): void {
    this.#live.tail(records);
  }

  /** Drops the oldest lines beyond the limit and says how many. */
  trim(limit = MAX_LINES, step = STEP): number {
    if (this.lines.length <= limit + step) return 0;
    const surplus = this.lines.length - limit;
    const mark = this.#marks.findLast(([, lines]) => lines > 0 && lines <= surplus);
    const count = mark ? mark[1] : surplus;
    this.lines = this.lines.slice(count);
    this.dropped += count;
    if (this.before !== undefined) this.before += count;
    this.start = mark?.[0];
    this.#shift(-count);
    return count;
  }

  /** Puts what stands before the first line in front; `from` is its offset. Returns the number of lines added. */
  prepend(records: readonly LogRecord[], from: number): number {
    const earlier: Line[] = [];
    const assembler = new LineAssembler((line) => earlier.push(line), from > 0);
    for (const record of records) assembler.push(record);
    this.#live.withoutTail(() => mend(earlier, (stream) => this.lines.find((line) => line.stream === stream)));
    this.lines = earlier.concat(this.lines);
    this.start = from;
    this.before = from === 0 ? 0 : undefined;
    this.#shift(earlier.length);
    return earlier.length;
  }

  /** About where in the log a line stands. */
  offsetOf(line: number): number {
    const start = this.start ?? 0;
    return start + ((this.end - start) * line) / Math.max(1, this.lines.length);
  }

  search(text: string): number[] {
    return found(this.lines, text);
  }

  #shift(by: number): void {
    this.#marks = this.#marks.map(([offset, lines]) => [offset, lines + by] as [number, number]);
    this.#marks = this.#marks.filter(([, lines]) => lines > 0);
  }
}
