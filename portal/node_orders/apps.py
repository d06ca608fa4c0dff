from django.apps import AppConfig


class NodeOrdersConfig(AppConfig):
    name = "portal.node_orders"

    def ready(self) -> None:
        """Registers the sender of changed order lists in every process."""
        from portal.node_orders.services import desired  # noqa: F401
