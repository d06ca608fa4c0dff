/** Why something cannot be packed: which of the page's sentences says it, and what goes into that. */
export class Refusal extends Error {
  readonly word: string;
  readonly values: Record<string, string>;

  constructor(word: string, values: Record<string, string> = {}) {
    super(word);
    this.word = word;
    this.values = values;
  }
}

/** The most that an archive may take: its bytes, those of its files, and how many they are. */
export interface Limits {
  size: number;
  unpacked: number;
  entries: number;
}

/** A file to pack; `path` is relative to the folder of code, with slashes. */
export interface Packed {
  path: string;
  content: Blob;
  executable: boolean;
}

/** `344 B`, `1.2 KB`, `100 MB`. */
export function amount(bytes: number): string {
  const place = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 2);
  const size = bytes / 2 ** (10 * place);
  return `${Number(size.toFixed(size < 10 ? 1 : 0))} ${["B", "KB", "MB"][place]}`;
}
