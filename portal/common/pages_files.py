"""The files that pages load, as ``manage.py collectstatic`` collects them."""

from django.contrib.staticfiles.apps import StaticFilesConfig


class PagesFilesConfig(StaticFilesConfig):
    """Without Redoc, which comes with Swagger UI and no page shows: 12 MB to compress."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "redoc"]
