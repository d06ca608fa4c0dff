/** `data-chart`: draws what the figure's table sums up. Its code is loaded where there is one. */
export async function chart(figure: HTMLElement): Promise<void> {
  const { Chart } = await import("../charts/chart.ts");
  new Chart(figure);
}
