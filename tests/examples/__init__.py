"""Every operation of the REST API asked of one scene, and what it answered: the examples of the OpenAPI document."""
