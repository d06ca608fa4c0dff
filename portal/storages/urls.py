"""URLs of storage pages."""

from django.urls import path

from portal.storages.views import storage_end, storage_new, storage_page, storage_server, storages

urlpatterns = [
    path("storages", storages, name="storages"),
    path("new-storage", storage_new, name="storage-new"),
    path("storages/<name:name>", storage_page, name="storage"),
    path("storages/<name:name>/servers/<name:node>", storage_server, name="storage-tie"),
    path("storages/<name:name>/remove", storage_end, name="storage-remove"),
]
