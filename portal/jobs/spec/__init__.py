"""The job file: the one home of job validation. Pure Python, no Django.

A YAML or JSON document of OpenPAI's job protocol v2 goes in; a `JobSpec`, or `SpecInvalid` with every
problem and its path, comes out.
"""
