"""The compose stack's first step: what is made once, and what follows from ``BERTH_URL``. ``python -m portal.compose``.

It runs before every other container, with no network, and needs neither Django nor a database.
"""
