"""The agent on a GPU server. Knows neither Django nor the portal's code; installs alone."""
