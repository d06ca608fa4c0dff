from django.apps import AppConfig


class MetricsConfig(AppConfig):
    name = "portal.metrics"

    def ready(self) -> None:
        from portal.metrics import mails  # noqa: F401  registers the advice in mails
