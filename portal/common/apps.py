from django.apps import AppConfig


class CommonConfig(AppConfig):
    name = "portal.common"

    def ready(self) -> None:
        from portal.common import checks  # noqa: F401  registers the checks
