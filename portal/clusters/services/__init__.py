"""Writing nodes and virtual clusters: joining, reports, topology, silence, intents, rules, quotas."""
