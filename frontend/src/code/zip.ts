/** The files of a zip archive. It is trusted in nothing: neither names, nor sizes, nor how many it says they are. */

import { type Limits, amount, type Packed, Refusal } from "./refusal.ts";

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const LOCAL = 0x04034b50;
const END_SIZE = 22;
const LONGEST_COMMENT = 0xffff;
const LINK = 0o120000;
const KIND = 0o170000;

interface Entry {
  name: string;
  method: number;
  packed: number;
  size: number;
  mode: number;
  at: number;
}

/** Raises Refusal for what is no zip, is damaged, is larger than the limits, or has something in it that leaves it. */
export async function unzipped(zip: Blob, limits: Limits): Promise<Packed[]> {
  const entries = (await directory(zip, limits)).filter((entry) => !entry.name.endsWith("/"));
  const total = entries.reduce((sum, entry) => sum + entry.size, 0);
  if (total > limits.unpacked) throw new Refusal("TooLarge", { size: amount(total), most: amount(limits.unpacked) });
  const files: Packed[] = [];
  for (const entry of entries) {
    const content = await unpacked(zip, entry);
    files.push({ path: entry.name, content, executable: (entry.mode & 0o111) !== 0 });
  }
  return files;
}

async function view(zip: Blob, from: number, to: number): Promise<DataView> {
  return new DataView(await zip.slice(from, to).arrayBuffer());
}

async function directory(zip: Blob, limits: Limits): Promise<Entry[]> {
  const start = Math.max(0, zip.size - END_SIZE - LONGEST_COMMENT);
  const tail = await view(zip, start, zip.size);
  let at = tail.byteLength - END_SIZE;
  while (at >= 0 && tail.getUint32(at, true) !== END) at -= 1;
  if (at < 0) throw new Refusal("NoZip");
  const [count, size, offset] = [tail.getUint16(at + 10, true), tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
  if (count > limits.entries || count === 0xffff) throw new Refusal("TooMany", { most: String(limits.entries) });
  if (offset + size > zip.size) throw new Refusal("NoZip");
  return listed(await view(zip, offset, offset + size), count);
}

function listed(found: DataView, count: number): Entry[] {
  const entries: Entry[] = [];
  let at = 0;
  for (let number = 0; number < count; number += 1) {
    if (at + 46 > found.byteLength || found.getUint32(at, true) !== ENTRY) throw new Refusal("NoZip");
    const length = found.getUint16(at + 28, true);
    if (at + 46 + length > found.byteLength) throw new Refusal("NoZip");
    const name = safeName(new Uint8Array(found.buffer, at + 46, length));
    const mode = found.getUint32(at + 38, true) >>> 16;
    if ((found.getUint16(at + 8, true) & 1) !== 0) throw new Refusal("Encrypted", { name });
    if ((mode & KIND) === LINK) throw new Refusal("Link", { name });
    entries.push({
      name,
      mode,
      method: found.getUint16(at + 10, true),
      packed: found.getUint32(at + 20, true),
      size: found.getUint32(at + 24, true),
      at: found.getUint32(at + 42, true),
    });
    at += 46 + length + found.getUint16(at + 30, true) + found.getUint16(at + 32, true);
  }
  return entries;
}

/** Relative, below the folder, of letters that can be shown. */
function safeName(bytes: Uint8Array): string {
  let name: string;
  try {
    name = new TextDecoder("utf-8", { fatal: true }).decode(bytes).replaceAll("\\", "/");
  } catch {
    throw new Refusal("Name", { name: new TextDecoder().decode(bytes) });
  }
  const leaves = name.startsWith("/") || /^[a-z]:/i.test(name) || name.split("/").includes("..");
  if (leaves) throw new Refusal("Leaves", { name });
  if (name === "" || /[\u0000-\u001f\u007f]/.test(name)) throw new Refusal("Name", { name });
  return name;
}

async function unpacked(zip: Blob, entry: Entry): Promise<Blob> {
  const local = await view(zip, entry.at, entry.at + 30);
  if (local.byteLength < 30 || local.getUint32(0, true) !== LOCAL) throw new Refusal("NoZip");
  const start = entry.at + 30 + local.getUint16(26, true) + local.getUint16(28, true);
  const packed = zip.slice(start, start + entry.packed);
  if (packed.size !== entry.packed) throw new Refusal("NoZip");
  if (entry.method === 0 && entry.packed === entry.size) return packed;
  if (entry.method !== 8) throw new Refusal("Method", { name: entry.name });
  return inflated(packed, entry);
}

/** No byte more than the entry says it holds, whatever is packed there. */
async function inflated(packed: Blob, entry: Entry): Promise<Blob> {
  const reader = packed.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      size += next.value.length;
      if (size > entry.size) break;
      pieces.push(next.value as Uint8Array<ArrayBuffer>);
    }
  } catch {
    throw new Refusal("NoZip");
  } finally {
    await reader.cancel().catch(() => undefined);
  }
  if (size !== entry.size) throw new Refusal("NoZip");
  return new Blob(pieces);
}
