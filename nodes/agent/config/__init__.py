"""The agent's settings, the policy of its server, and how a server joins."""
