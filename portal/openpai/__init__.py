"""OpenPAI's REST API v2 over Berth's services: for clients, scripts and people who come from OpenPAI."""
