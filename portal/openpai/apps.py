from django.apps import AppConfig


class OpenpaiConfig(AppConfig):
    name = "portal.openpai"
