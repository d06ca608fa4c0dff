"""Alerts and their silences, the gauges for Prometheus, and the settings page for administrators."""
