"""The contract between the portal and the agents: orders, reports, log records, states and names.

This is the only part of ``nodes`` that the portal imports. Four lanes (see ``docs/decisions/node-lanes.md``):
``Desired`` down (queue ``node.<name>``), ``Report`` up (queue ``reports``), bytes through Redis streams (one per task
attempt for its log, two per session), and code down over one signed URL per order. Beside it: what both sides say
alike of addresses, and of servers that cannot be reached.
"""
