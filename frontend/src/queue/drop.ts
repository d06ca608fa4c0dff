/** Where a row that is dragged would be dropped among those past which it may go. */

/** A row: the job in it, and the middle of the row on the screen. */
export interface Spot {
  job: string;
  middle: number;
}

/** Right before or right behind another row. */
export interface Drop {
  way: "before" | "after";
  job: string;
}

/** What letting go at height `y` means for `dragged`, given its group's rows from top to bottom; undefined where it
 * stays where it is. */
export function dropAt(spots: readonly Spot[], dragged: string, y: number): Drop | undefined {
  const from = spots.findIndex((spot) => spot.job === dragged);
  const others = spots.filter((spot) => spot.job !== dragged);
  const below = others.findIndex((spot) => spot.middle > y);
  const to = below < 0 ? others.length : below;
  if (from < 0 || to === from) return undefined;
  const next = others[to];
  if (next) return { way: "before", job: next.job };
  return { way: "after", job: (others.at(-1) as Spot).job };
}
