"""REST: the cluster as a HiveD-style configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.cluster.services.configuration import configuration_export, configuration_read
from portal.common.parameters import DRY_RUN, dry_run
from portal.scheduler.api.answers import ConfigurationAnswer
from portal.scheduler.changes import configuration_change
from portal.teams.selectors.visible import configuration_right


class ClusterView(ApiView):
    """The cluster's configuration."""

    problems = (409,)

    @extend_schema(operation_id="cluster_export", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        """Cells, nodes, virtual clusters and quotas as a HiveD-style configuration: `physicalCluster` and
        `virtualClusters`. For administrators."""
        configuration_right(user=self.user)
        return Response(configuration_export())

    @extend_schema(
        operation_id="cluster_import",
        parameters=[DRY_RUN],
        request=OpenApiTypes.OBJECT,
        responses=ConfigurationAnswer,
    )
    def put(self, request: Request) -> Response:
        """Makes a configuration the cluster's. Everything wrong with it is told at once, with its path, and then
        nothing is changed. No job is stopped by it: those that do not fit any more are demoted and listed, and so are
        those whose GPUs are wanted back at once. For administrators."""
        configuration_right(user=self.user)
        document: Any = request.data
        if not isinstance(document, Mapping):
            raise ValidationError("A configuration is an object with physicalCluster and virtualClusters.")
        dry = dry_run(request)
        found = configuration_read(document)
        effect = configuration_change(found=found, dry_run=dry, **self.by)
        return Response(ConfigurationAnswer({"dry_run": dry, "effect": effect}).data)
