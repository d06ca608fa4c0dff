"""HiveD-style configuration of a cluster, in and out, as plain data: who calls reads and writes the YAML.

The format is HiveD's (its user manual, "Config"): `physicalCluster` with `skuTypes`, `cellTypes` and
`physicalCells`, and `virtualClusters` with `virtualCells` and `pinnedCells`. Keys are added: a top cell may name
its `chain`, so that cells of several types can stand in for each other, as nodes of one SKU do in Berth; without
it the chain is the cell's type, as in HiveD. `cpuTasks` of a node, `cpuNodes` beside the `physicalCells` and
`hostNetwork` of a virtual cluster are what Berth's docs/admin/quotas.md says of them.
"""
