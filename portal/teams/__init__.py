"""Virtual clusters: members, rules, quotas and how full they are."""
