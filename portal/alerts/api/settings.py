"""REST: how the portal was set up."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.alerts.settings_overview import settings_shown
from portal.common.serializers import Answer


class SettingAnswer(Answer):
    name = serializers.CharField(help_text="the variable of the environment")
    group = serializers.CharField()
    meaning = serializers.CharField()
    value = serializers.CharField(allow_blank=True)


class SettingsView(ApiView):
    """The settings that came from the environment."""

    pagination_class = None

    @extend_schema(operation_id="setting_list", responses=SettingAnswer(many=True))
    def get(self, request: Request) -> Response:
        """Their names, what they do, their values; never a secret. They are changed in the environment. For
        administrators and auditors."""
        return self.listed(settings_shown(user=self.user), SettingAnswer)
