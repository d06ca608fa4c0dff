/** A chart's data as options of uPlot. Colours are asked for at each drawing, so that they follow light and dark. */

import uPlot from "uplot";

import { language } from "../language.ts";
import { type ChartData, type ChartLine, colourOf, dashOf, numberWords, stackedUp, timeWords } from "./data.ts";

const AXIS = { width: 52, height: 28 };

export interface PlotHandlers {
  /** The moment or bar under the pointer; null when it has left. */
  pointed: (place: number | null) => void;
  /** Somebody chose these moments by dragging; null: all of them again. */
  zoomed: (span: [number, number] | null) => void;
}

export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What uPlot draws: the places on the x axis, then each line. */
export function drawn(data: ChartData, hidden: ReadonlySet<string>): uPlot.AlignedData {
  const places = data.names.length ? data.names.map((_, place) => place) : data.times;
  const stacked = data.stacked || data.kind === "bar";
  const lines = stacked ? stackedUp(data.lines, hidden) : data.lines.map((line) => line.values);
  // the uppermost of a stack is drawn first, the lower ones over it
  return [places, ...(stacked ? lines.reverse() : lines)] as uPlot.AlignedData;
}

/** `current` is asked again at each drawing: numbers change while the plot stays. */
export function options(
  current: () => ChartData,
  hidden: ReadonlySet<string>,
  size: { width: number; height: number },
  group: string | undefined,
  handlers: PlotHandlers,
): uPlot.Options {
  const data = current();
  const stacked = data.stacked || data.kind === "bar";
  const lines = data.lines.map((line, place) => series(data, line, place, stacked, hidden));
  return {
    ...size,
    ms: 1e-3,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: {
      drag: { x: data.names.length === 0, y: false, setScale: true },
      points: { show: !stacked },
      ...(group ? { sync: { key: group, setSeries: false } } : {}),
    },
    scales: {
      x: { time: data.names.length === 0, range: (_, min, max) => ends(current(), min, max) },
      y: { range: (_, __, most) => [0, Math.max(data.top ?? 0, (most || 0) * 1.05) || 1] },
    },
    series: [{}, ...(stacked ? lines.reverse() : lines)],
    axes: [xAxis(data), yAxis()],
    hooks: {
      setCursor: [(plot) => handlers.pointed(plot.cursor.idx ?? null)],
      setSelect: [(plot) => selected(plot, handlers)],
    },
  };
}

function ends(data: ChartData, min: number, max: number): [number, number] {
  if (data.names.length) return [-0.5, data.names.length - 0.5];
  const [first = 0, second = first] = data.times;
  const pad = data.kind === "bar" ? (second - first) / 2 : 0;
  return data.span ?? (min === max ? [min - 30, max + 30] : [min - pad, max + pad]);
}

function selected(plot: uPlot, handlers: PlotHandlers): void {
  if (plot.select.width < 2) return;
  const from = plot.posToVal(plot.select.left, "x");
  handlers.zoomed([from, plot.posToVal(plot.select.left + plot.select.width, "x")]);
}

function series(
  data: ChartData,
  line: ChartLine,
  place: number,
  stacked: boolean,
  hidden: ReadonlySet<string>,
): uPlot.Series {
  const colour = colourOf(line, place);
  const bars = data.kind === "bar" ? uPlot.paths.bars?.({ size: [0.7, 48], align: 0 }) : undefined;
  return {
    label: line.name,
    show: !hidden.has(line.name),
    stroke: () => token(colour),
    width: data.kind === "bar" ? 0 : 1.5,
    points: { show: () => false, size: 5, filter: (plot, index) => (bars ? [] : alone(plot.data[index] ?? [])) },
    ...(data.kind === "line" && !stacked ? { dash: dashOf(place) } : {}),
    // of a stack each lower area covers the one above it, so it must not let it through
    ...(data.kind === "line" ? {} : { fill: () => (stacked ? token(colour) : `${token(colour)}38`) }),
    ...(bars ? { paths: bars } : {}),
  };
}

/** Where a value has no neighbour to draw a line to: a point shows it. */
function alone(values: ArrayLike<number | null | undefined>): number[] {
  const known = (place: number): boolean => typeof values[place] === "number";
  return Array.from(values, (_, place) => place).filter(
    (place) => known(place) && !known(place - 1) && !known(place + 1),
  );
}

function look(): Pick<uPlot.Axis, "stroke" | "grid" | "ticks" | "font"> {
  return {
    stroke: () => token("--berth-text-2"),
    grid: { stroke: () => token("--berth-line"), width: 1 },
    ticks: { show: false },
    font: `11px ${token("--berth-sans")}`,
  };
}

function xAxis(data: ChartData): uPlot.Axis {
  if (data.names.length) {
    const values = (_: uPlot, splits: number[]): string[] => splits.map((split) => data.names[split] ?? "");
    return { ...look(), size: AXIS.height, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100], space: 70, values };
  }
  return {
    ...look(),
    size: AXIS.height,
    space: 80,
    values: (_, splits, __, ___, step) => timeWords(splits, step, language),
  };
}

function yAxis(): uPlot.Axis {
  return { ...look(), size: AXIS.width, space: 36, values: (_, splits) => splits.map(short) };
}

function short(value: number): string {
  if (value >= 10_000) return `${numberWords(value / 1000)}k`;
  return value < 1 ? String(Number(value.toPrecision(2))) : numberWords(value);
}
