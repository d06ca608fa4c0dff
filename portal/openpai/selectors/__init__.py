"""Reading for OpenPAI's clients: what they ask for, by the rights of Berth."""
