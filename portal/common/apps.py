from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class CommonConfig(AppConfig):
    name = "portal.common"

    def ready(self) -> None:
        from portal.common import checks  # noqa: F401  registers the checks

        autodiscover_modules("wordings")
