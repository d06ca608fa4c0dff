/** Which line stands at which screen row: a Fenwick tree over the rows that each line fills. */
export class RowIndex {
  #tree = new Uint32Array(1024);
  #rows = new Uint16Array(1024);
  #count = 0;
  #total = 0;

  get total(): number {
    return this.#total;
  }

  rowsOf(line: number): number {
    return this.#rows[line] ?? 1;
  }

  reset(rows: readonly number[]): void {
    this.#count = this.#total = 0;
    for (const one of rows) this.append(one);
  }

  /** Forgets the lines from this one on. */
  truncate(count: number): void {
    this.#total = this.before(count);
    this.#count = Math.min(this.#count, count);
  }

  append(rows: number): void {
    if (this.#count + 1 >= this.#tree.length) this.#grow();
    const place = this.#count + 1;
    this.#rows[this.#count] = rows;
    this.#count = place;
    this.#total += rows;
    let sum = rows;
    const low = place & -place;
    for (let step = 1; step < low; step <<= 1) sum += this.#tree[place - step] as number;
    this.#tree[place] = sum;
  }

  set(line: number, rows: number): void {
    const change = rows - (this.#rows[line] as number);
    if (change === 0) return;
    this.#rows[line] = rows;
    this.#total += change;
    for (let place = line + 1; place <= this.#count; place += place & -place) {
      this.#tree[place] = (this.#tree[place] as number) + change;
    }
  }

  /** The rows above a line. */
  before(line: number): number {
    let sum = 0;
    for (let place = Math.min(line, this.#count); place > 0; place -= place & -place) sum += this.#tree[place] as number;
    return sum;
  }

  /** The line that fills a row (from 0); the last line for a row beyond the end. */
  lineAt(row: number): number {
    let place = 0;
    let left = row;
    for (let step = 1 << Math.floor(Math.log2(Math.max(1, this.#count))); step > 0; step >>= 1) {
      const next = place + step;
      if (next <= this.#count && (this.#tree[next] as number) <= left) {
        place = next;
        left -= this.#tree[next] as number;
      }
    }
    return Math.max(0, Math.min(place, this.#count - 1));
  }

  #grow(): void {
    const tree = new Uint32Array(this.#tree.length * 2);
    const rows = new Uint16Array(tree.length);
    tree.set(this.#tree);
    rows.set(this.#rows);
    this.#tree = tree;
    this.#rows = rows;
  }
}
