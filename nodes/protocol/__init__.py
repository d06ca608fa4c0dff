"""The contract between portal and agents: orders, reports, log records, states and names.

The only part of ``nodes`` that the portal imports. Four lanes (see ``docs/decisions/node-lanes.md``): ``Desired`` down
(queue ``node.<name>``), ``Report`` up (queue ``reports``), bytes through Redis streams (one per task attempt for its
log, two per session), and code down over one signed URL per order. Beside it: what both sides share about addresses,
and about servers that cannot be reached.
"""
