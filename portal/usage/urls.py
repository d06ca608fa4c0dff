"""URLs of the usage pages."""

from django.urls import path

from portal.usage.views.usage import usage
from portal.usage.views.vc_usage import vc_usage

urlpatterns = [
    path("virtual-clusters/<name:name>/usage", vc_usage, name="vc-usage"),
    path("usage", usage, name="usage"),
]
