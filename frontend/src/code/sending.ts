/** From chosen files to uploaded code: packed, compressed, sent, with how far it is. */

import { chosen } from "./folder.ts";
import { type Limits, amount, type Packed, Refusal } from "./refusal.ts";
import { tar } from "./tar.ts";
import { unzipped } from "./zip.ts";

export interface Uploaded {
  id: string;
  files: number;
  size: number;
}

/** The files that were picked or dropped; a single zip archive is what lies in it. */
export async function filesOf(picked: readonly { path: string; file: File }[], limits: Limits): Promise<Packed[]> {
  const [first] = picked;
  if (picked.length === 1 && first && /\.zip$/i.test(first.file.name)) return unzipped(first.file, limits);
  const files = picked.map(async ({ path, file }) => ({ path, content: file, executable: await isScript(file) }));
  return Promise.all(files);
}

/** A browser does not say which files can be run: those that begin as scripts do. */
async function isScript(file: Blob): Promise<boolean> {
  return (await file.slice(0, 2).text()) === "#!";
}

/** The archive. Raises Refusal where it is larger than the limits. */
export async function archive(files: readonly Packed[], limits: Limits): Promise<{ content: Blob; files: number }> {
  const kept = await chosen(files, limits);
  const stream = tar(kept).stream().pipeThrough(new CompressionStream("gzip"));
  const content = await new Response(stream).blob();
  if (content.size > limits.size) throw new Refusal("Packed", { size: amount(content.size), most: amount(limits.size) });
  return { content, files: kept.length };
}

/** Sends it; `moved` gets the part that is through, from 0 to 1. Raises Refusal with the server's own words. */
export function send(content: Blob, address: string, token: string, moved: (part: number) => void, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address);
    request.responseType = "json";
    request.setRequestHeader("Content-Type", "application/gzip");
    request.setRequestHeader("X-CSRFToken", token);
    request.upload.addEventListener("progress", (event) => moved(event.loaded / Math.max(event.total, 1)));
    request.addEventListener("load", () => {
      const answer = request.response as { id?: string; detail?: string } | null;
      if (request.status < 300 && answer?.id) resolve(answer.id);
      else if (request.status === 401 || request.status === 403) reject(new Refusal("SignedOut"));
      else reject(answer?.detail ? new Refusal("Server", { detail: answer.detail }) : new Refusal("Lost"));
    });
    request.addEventListener("error", () => reject(new Refusal("Lost")));
    request.addEventListener("abort", () => reject(new Refusal("Stopped")));
    signal.addEventListener("abort", () => request.abort());
    request.send(content);
  });
}
