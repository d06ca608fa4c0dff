/** What is typed, as fast as the program takes it: at most `window` bytes are under way. */

const PIECE = 32 * 1024;

export class Typing {
  readonly #send: (piece: Uint8Array) => void;
  #waiting: Uint8Array[] = [];
  #window = 0;
  #sent = 0;
  #taken = 0;

  constructor(send: (piece: Uint8Array) => void) {
    this.#send = send;
  }

  /** The program has begun. */
  open(window: number): void {
    this.#window = window;
    this.#pump();
  }

  /** So many bytes have been taken so far. */
  taken(bytes: number): void {
    this.#taken = Math.max(this.#taken, bytes);
    this.#pump();
  }

  type(data: Uint8Array): void {
    for (let start = 0; start < data.length; start += PIECE) this.#waiting.push(data.subarray(start, start + PIECE));
    this.#pump();
  }

  #pump(): void {
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (this.#sent - this.#taken + next.length > this.#window) return;
      this.#sent += next.length;
      this.#waiting.shift();
      this.#send(next);
    }
  }
}
