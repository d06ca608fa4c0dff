from django.apps import AppConfig


class NodeOrdersConfig(AppConfig):
    name = "portal.node_orders"

    def ready(self) -> None:
        """Whoever changes what a node shall do has its list sent, in every process."""
        from portal.node_orders.services import desired  # noqa: F401
