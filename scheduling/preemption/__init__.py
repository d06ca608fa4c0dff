"""Victim choice: what each victim costs, and which jobs inside a virtual cluster are preempted."""
