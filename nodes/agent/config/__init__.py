"""Configuration: the agent's settings, the policy of its server, and joining."""
