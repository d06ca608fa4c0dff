/** One archive of files, the same for the same files. */

import type { Packed } from "./refusal.ts";

const BLOCK = 512;
/** The time of every file, 1980-01-01: the real ones would make another archive of the same code. */
const MOMENT = 315_532_800;
const encoder = new TextEncoder();

export function tar(files: readonly Packed[]): Blob {
  const parts: BlobPart[] = [];
  for (const file of [...files].sort((one, other) => (one.path < other.path ? -1 : 1))) {
    const name = encoder.encode(file.path);
    if (name.length > 99 || name.length !== file.path.length) parts.push(...longName(name));
    parts.push(header(name.subarray(0, 99), file.content.size, file.executable ? 0o755 : 0o644, "0"));
    parts.push(file.content, padding(file.content.size));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts);
}

/** A record before the file's own header, for a path that does not fit there. */
function longName(name: Uint8Array<ArrayBuffer>): BlobPart[] {
  const rest = name.length + " path=\n".length;
  let length = rest + String(rest).length;
  length = rest + String(length).length;
  const record = new Blob([`${length} path=`, name, "\n"]);
  return [header(encoder.encode("PaxHeader"), record.size, 0o644, "x"), record, padding(record.size)];
}

function header(name: Uint8Array, size: number, mode: number, kind: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const text = (at: number, value: string): void => block.set(encoder.encode(value), at);
  const octal = (at: number, digits: number, value: number): void => text(at, value.toString(8).padStart(digits, "0"));
  block.set(name, 0);
  octal(100, 7, mode);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, size);
  octal(136, 11, MOMENT);
  text(148, "        ");
  text(156, kind);
  text(257, "ustar\u000000");
  octal(148, 6, block.reduce((sum, byte) => sum + byte, 0));
  block[154] = 0;
  return block;
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}
