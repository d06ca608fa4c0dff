"""The version of client, command and portal, which are released together."""

__version__ = "0.1.0"
