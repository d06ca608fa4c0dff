"""The life of a task attempt on this node, from its order to the report of its end."""
