"""Servers, GPUs and cells as rows: what they report, their health, and what closes them."""
