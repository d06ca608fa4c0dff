"""What is wrong now, told and silenced; the gauges for Prometheus; the settings as an administrator reads them."""
