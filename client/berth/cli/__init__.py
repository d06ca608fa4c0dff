"""The `berth` command: what a person does at a terminal, over the client alone."""
