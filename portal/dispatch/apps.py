from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "portal.dispatch"
