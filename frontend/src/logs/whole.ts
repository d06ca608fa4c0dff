/** Searches the whole of a log, which the portal does a stretch at a time. */

/** What the portal found in one stretch. */
export interface Stretch {
  start: number;
  end: number;
  log_end: number;
  count: number;
  hits: { offset: number; text: string }[];
  next_offset: number | null;
}

export type Way = 1 | -1;
type Get = (address: string, signal: AbortSignal) => Promise<Stretch>;

/** So many hits are told with each request; the first of them is the one that is gone to. */
const TOLD = 20;

export class WholeLog {
  readonly #address: string;
  readonly #get: Get;

  /** `address`: of the search, with the task in its query. */
  constructor(address: string, get: Get = fetched) {
    this.#address = address;
    this.#get = get;
  }

  /**
   * The log's offset of the nearest line with `text` from offset `from` on, or before it; behind the end (before the
   * beginning) the search goes on at the other end, back to where it began. Undefined: the text is nowhere there.
   * `told`: the share of the log that is searched. Raises what `get` raises; AbortError once the signal says so.
   */
  async seek(
    text: string, from: number, way: Way, signal: AbortSignal, told: (share: number) => void,
  ): Promise<number | undefined> {
    let searched = 0;
    for (const again of [false, true]) {
      let at: number | null | undefined = again ? (way > 0 ? 0 : undefined) : from;
      while (at !== null) {
        const stretch = await this.#ask(text, at, way, TOLD, signal);
        if (stretch.hits[0]) return stretch.hits[0].offset;
        searched += stretch.end - stretch.start;
        told(Math.min(1, searched / Math.max(1, stretch.log_end)));
        at = stretch.next_offset;
        if (again && at !== null && (way > 0 ? at >= from : at <= from)) return undefined;
      }
    }
    return undefined;
  }

  /** How many lines of the log have `text`: tells the number so far and the share of the log that it is of. */
  async count(text: string, signal: AbortSignal, told: (lines: number, share: number) => void): Promise<void> {
    let lines = 0;
    let at: number | null = 0;
    while (at !== null) {
      const stretch: Stretch = await this.#ask(text, at, 1, 0, signal);
      lines += stretch.count;
      at = stretch.next_offset;
      told(lines, at === null ? 1 : stretch.end / Math.max(1, stretch.log_end));
    }
  }

  async #ask(text: string, at: number | undefined, way: Way, limit: number, signal: AbortSignal): Promise<Stretch> {
    signal.throwIfAborted();
    const offset = at === undefined ? "" : `&offset=${at}`;
    const asked = `text=${encodeURIComponent(text)}${offset}&way=${way > 0 ? "forward" : "backward"}&limit=${limit}`;
    const stretch = await this.#get(`${this.#address}&${asked}`, signal);
    signal.throwIfAborted();
    return stretch.end > stretch.start ? stretch : { ...stretch, next_offset: null }; // it comes no further
  }
}

/** Who is asked to wait waits. */
async function fetched(address: string, signal: AbortSignal): Promise<Stretch> {
  for (;;) {
    const response = await fetch(address, { signal });
    if (response.ok) return (await response.json()) as Stretch;
    if (response.status !== 429) throw new Error(`${response.status} for ${address}`);
    const seconds = Number(response.headers.get("retry-after") ?? 5);
    await new Promise((done) => setTimeout(done, Math.max(1, seconds) * 1000));
    signal.throwIfAborted();
  }
}
