/** Sent by a chart when somebody chooses moments by dragging; `detail`: [from, to] in seconds, or null for all. */
export const ZOOM = "berth:zoom";

/** The address of a page with that part of the time; null: without. */
export function zoomedTo(address: string, span: [number, number] | null): string {
  const url = new URL(address, "http://localhost");
  for (const name of ["from", "to", "last"]) url.searchParams.delete(name);
  if (span) {
    url.searchParams.set("from", String(Math.floor(span[0])));
    url.searchParams.set("to", String(Math.ceil(span[1])));
  }
  return url.pathname + url.search;
}
