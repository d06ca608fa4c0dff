/** `data-cluster-map="address"`: the map of the cluster. Its code is loaded where there is one. */
export async function clusterMap(element: HTMLElement): Promise<void> {
  const { ClusterMap } = await import("../cluster/page.ts");
  new ClusterMap(element);
}
