"""URLs of the alert and settings pages."""

from django.urls import path

from portal.alerts.views import alert_silence, alert_silence_end, alerts, alerts_brief, settings

urlpatterns = [
    path("alerts", alerts, name="alerts"),
    path("alerts/brief", alerts_brief, name="alerts-brief"),
    path("alerts/silence", alert_silence, name="alert-silence"),
    path("alerts/silences/<int:silence_id>/end", alert_silence_end, name="alert-silence-end"),
    path("settings", settings, name="settings"),
]
