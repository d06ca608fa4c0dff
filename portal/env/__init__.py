"""Typed reading of the environment. A bad value stops the start with one sentence."""
