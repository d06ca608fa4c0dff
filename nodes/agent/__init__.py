"""The agent on a GPU server: takes orders from its portal, runs the attempts of tasks, and reports what there is."""
